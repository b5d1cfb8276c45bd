"""What a bug of ours, met by one run, does to the workers that compute it."""

from __future__ import annotations

import itertools

import orjson

from streamer.client.readers import StateReader
from streamer.operate.health import quarantined
from streamer.schemas.base import encode_id
from tests.faults.bed import CURRENT_SECONDS
from tests.faults.kind import Kind
from tests.support.cli import streamer
from tests.support.worker_process import wait_for

SERIAL = itertools.count(1)
DOOMED = "doomed"
"""This run is deleted now and then, which would end its quarantine."""

PLACES = ("score", "cut", "page")


class PoisonOfRun(Kind):
    """At one event all workers raise: its run is set apart, all others stay exact and current.

    Then either fixed workers come and `streamer runs repair` folds the run again, or the run is deleted.
    """

    name = "poison of its run"
    compared_meanwhile = True

    def prepare(self) -> None:
        bed = self.bed
        self._run = self.rng.choice([run for run in bed.traffic.runs if run != DOOMED])
        self._task, self._place = f"poison {next(SERIAL)}", self.rng.choice(PLACES)
        self._deleted = self.rng.random() < 0.5
        environment = {"POISON": self._place, "POISON_TASK": self._task}
        bed.fleet.replace_all(module="tests.worker.poisoned", environment=environment)
        bed.wait_current("before the poison")
        self._wait(lambda: not self._in_quarantine(), "nothing is set apart before")
        self._ended = len(bed.fleet.ended)

    def inject(self) -> None:
        bed = self.bed
        bed.quarantined.add(self._run)
        poison = bed.traffic.once(bed.traffic.poison(self._run, self._task))
        [self._offset] = bed.publisher.send_and_wait([poison])
        self._partition = poison.partition
        self._wait(lambda: self._run in self._in_quarantine(), "it is set apart")

    def last(self) -> None:
        """All others are current, and what there is of this one says that it is not."""
        self.bed.burst()
        self.bed.wait_current("all other runs while one is set apart")
        self._wait(self._degraded, "its last good summaries say so")
        if self._place == "score":
            place = self._partition, self._offset
            self._wait(lambda: self.bed.topics.quarantined[place], "the event is named in a rejection")
        assert len(self.bed.fleet.ended) == self._ended, "a worker ended"

    def heal(self) -> None:
        if self._deleted:
            self.bed.publisher.send([self.bed.traffic.once(self.bed.traffic.deletion(self._run))])
        else:
            self.bed.fleet.replace_all()
            self._repair()
        self._wait(lambda: not self._in_quarantine(), "nothing is set apart")
        self.bed.quarantined.clear()
        self.notes.append(f"{self._place}, {'deleted' if self._deleted else 'repaired'}")

    def tidy(self) -> None:
        if self._deleted:
            self.bed.fleet.replace_all()

    def _wait(self, condition: object, what: str) -> None:
        assert callable(condition)
        wait_for(condition, f"{self._run}, poisoned at {self._place}: {what}", CURRENT_SECONDS)

    def _in_quarantine(self) -> set[str]:
        with StateReader(self.bed.settings) as reader:
            return set(quarantined(reader))

    def _degraded(self) -> bool:
        names, mine = self.bed.names, encode_id(self._run)
        result = [
            orjson.loads(value)["degraded"]
            for topic in (names.run_summaries, names.agent_model_summaries, names.tier_summaries)
            for key, value in list(self.bed.topics.latest[topic].items())
            if key.split("|")[0] == mine
        ]
        return bool(result) and all(result)

    def _repair(self) -> None:
        settings = self.bed.settings
        given = ("bootstrap", "redis", "namespace", "embedded", "partitions")
        environment = {f"STREAMER_{name.upper()}": str(getattr(settings, name)) for name in given}
        done = streamer("runs", "repair", self._run, environment=environment)
        assert done.returncode == 0, f"repair: {done.stderr.decode()}"


KINDS: list[type[Kind]] = [PoisonOfRun]
