"""What happens to Kafka and on the way to it."""

from __future__ import annotations

import time

from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete

from streamer.storage import entries
from streamer.worker.process import ROOM
from tests.faults.bed import COMPACTED_OFTEN, CURRENT_SECONDS, PARTITIONS, Bed
from tests.faults.kind import Kind
from tests.faults.servers import Kafka
from tests.support.worker_process import wait_for

KAFKAS = ("kafka", "kafka3")
REFUSING = ({"message.timestamp.before.max.ms": "0"}, {"min.insync.replicas": "9"})


class ProduceRefused(Kind):
    """The broker refuses what workers write to a topic.

    Either every record that was made before it arrived: then workers write without times. Or it lacks
    replicas: then they try again. A refusal for a record's size is no fault of the infrastructure: that sets
    the run apart (tests/worker/test_faults.py).
    """

    name = "produce refused by the broker"
    engines = KAFKAS
    hold_seconds = 2.0

    def inject(self) -> None:
        names = self.bed.names
        self._topic = self.rng.choice(
            [names.trials_changelog, names.run_summaries, names.agent_model_summaries, names.scored_trials]
        )
        refusing = self.rng.choice(REFUSING)
        self.notes.append(str(refusing))
        self.bed.configure(self._topic, COMPACTED_OFTEN | refusing)

    def heal(self) -> None:
        self.bed.configure(self._topic, COMPACTED_OFTEN)


class SlowLeader(Kind):
    """Everything to and from one broker takes its time."""

    name = "one slow partition leader"
    engines = KAFKAS
    hold_seconds = 3.0

    def inject(self) -> None:
        kafka = _kafka(self.bed)
        self._links = self.rng.choice(kafka.links)
        for link in self._links:
            link.slow(self.rng.choice([0.1, 0.3, 0.8]))

    def heal(self) -> None:
        for link in self._links:
            link.heal()


class BrokerKilled(Kind):
    """SIGKILL to a broker. One of three: the others go on serving, which is waited for."""

    name = "broker killed and restarted"
    engines = KAFKAS
    hold_seconds = 1.0

    def inject(self) -> None:
        self._node = self.rng.choice(_kafka(self.bed).nodes)
        self._node.kill()

    def last(self) -> None:
        if self.bed.engine == "kafka3":
            began = time.monotonic()
            self.bed.wait_current("with one of three brokers down")
            self.notes.append(f"one of three down: current after {time.monotonic() - began:.1f} s")
        else:
            super().last()

    def heal(self) -> None:
        self._node.launch()
        self._node.wait()


class BrokerStopped(Kind):
    """SIGSTOP to a broker for longer than any session, then SIGCONT."""

    name = "broker stopped and continued"
    engines = KAFKAS
    zombie = True

    def inject(self) -> None:
        self.hold_seconds = self.bed.session_seconds + 2.0
        self._node = self.rng.choice(_kafka(self.bed).nodes)
        self._node.pause()

    def heal(self) -> None:
        self._node.resume()


class KafkaCut(Kind):
    """Nothing passes between one worker and Kafka, for longer than its session; Redis it still reaches."""

    name = "network cut: worker and Kafka"
    engines = KAFKAS
    zombie = True

    def inject(self) -> None:
        self.hold_seconds = self.bed.session_seconds + 2.0
        self._links = self.bed.kafka.links_of(self.a_worker())
        for link in self._links:
            link.cut()

    def heal(self) -> None:
        for link in self._links:
            link.heal()


class KafkaRefused(Kind):
    """Connections between all workers and Kafka are reset, new ones refused."""

    name = "connections to Kafka reset and refused"
    engines = KAFKAS
    hold_seconds = 2.0

    def inject(self) -> None:
        self._links = [
            link for number in self.bed.fleet.numbers() for link in self.bed.kafka.links_of(number)
        ]
        for link in self._links:
            link.refuse()

    def heal(self) -> None:
        for link in self._links:
            link.heal()


WRITES_A_RUN = entries.SCRIPT.splitlines()[0].encode()
"""A heartbeat is a script, too: held back it changes nothing of a run."""


class LateWrites(Kind):
    """What a worker had sent to Kafka and Redis when it died arrives after others have gone further."""

    name = "late writes of a dead worker"
    engines = KAFKAS
    zombie = True
    quiet = True
    only_redis = False

    def inject(self) -> None:
        bed, fleet = self.bed, self.bed.fleet
        self._victim = self.a_worker()
        redis_link, kafka_links = bed.redis.links[self._victim], bed.kafka.links_of(self._victim)
        if self.only_redis or self.rng.random() < 0.5:
            self._held = [redis_link]
            redis_link.cut_at(WRITES_A_RUN)
        else:
            self._held = [redis_link, *kafka_links]
            for link in self._held:
                link.cut()
        bed.burst(300)
        wait_for(lambda: redis_link.is_cut, "the worker writes to Redis", CURRENT_SECONDS)
        time.sleep(0.5)
        fleet.kill(self._victim)
        fleet.start(self._other())
        bed.burst(300)

    def last(self) -> None:
        """The others publish everything; then nothing more is published."""
        self.bed.publisher.hold()
        self.bed.wait_current("before the late writes arrive")

    def heal(self) -> None:
        for link in self._held:
            link.heal()

    def tidy(self) -> None:
        fleet = self.bed.fleet
        fleet.start(self._victim)
        fleet.end(self._other())

    def _other(self) -> int:
        return max(self.bed.crew) + 1


class ChangelogCompacted(Kind):
    """The state's changelog is compacted as hard as Kafka can; then every worker has to live by it."""

    name = "changelog compacted hard"
    engines = KAFKAS
    hold_seconds = 2.0

    def prepare(self) -> None:
        hard = {
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.0",
            "max.compaction.lag.ms": "100",
            "min.compaction.lag.ms": "0",
            "delete.retention.ms": "0",
        }
        self.bed.configure(self.bed.names.trials_changelog, COMPACTED_OFTEN | hard)

    def inject(self) -> None:
        self.victims = self.bed.fleet.numbers()
        for victim in self.victims:
            self.bed.fleet.kill(victim)

    def heal(self) -> None:
        for victim in self.victims:
            self.bed.fleet.start(victim)

    def tidy(self) -> None:
        self.bed.configure(self.bed.names.trials_changelog, COMPACTED_OFTEN)


class ChangelogDeleted(Kind):
    """Records of the state's changelog are deleted, some or all; then every worker has to live by it."""

    name = "changelog deleted, in part or whole"
    engines = KAFKAS
    hold_seconds = 0.5

    def inject(self) -> None:
        bed, topic = self.bed, self.bed.names.trials_changelog
        bed.configure(topic, ROOM | {"cleanup.policy": "delete"})
        whole = self.rng.random() < 0.5
        ends = {n: bed.end_of(topic, n) for n in range(PARTITIONS)}
        cuts = {n: -1 if whole else self.rng.randint(0, end) for n, end in ends.items()}
        records = {TopicPartition(topic, n): RecordsToDelete(before_offset=cut) for n, cut in cuts.items()}
        bed.admin(lambda client: client.delete_records(records))
        bed.configure(topic, COMPACTED_OFTEN)
        self.notes.append("whole" if whole else "in part")
        self.victims = bed.fleet.numbers()
        for victim in self.victims:
            bed.fleet.kill(victim)

    def heal(self) -> None:
        for victim in self.victims:
            self.bed.fleet.start(victim)


def _kafka(bed: Bed) -> Kafka:
    assert isinstance(bed.kafka, Kafka)
    return bed.kafka


KINDS = [
    ProduceRefused,
    SlowLeader,
    BrokerKilled,
    BrokerStopped,
    KafkaCut,
    KafkaRefused,
    LateWrites,
    ChangelogCompacted,
    ChangelogDeleted,
]
