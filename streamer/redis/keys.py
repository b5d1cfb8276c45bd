"""Names of the Redis keys.

>>> keys = Keys()
>>> keys.agent_model("run/1", "pkg:Agent", "openai/gpt-5")
'streamer:{run%2F1}:agent_model:pkg%3AAgent:openai%2Fgpt-5'
>>> Keys("team-a").runs
'team-a:streamer:runs'
"""

from __future__ import annotations

from dataclasses import dataclass

from streamer.aggregate.keys import COMPARISON, GroupId
from streamer.schemas.identity import encode_id


@dataclass(frozen=True, slots=True)
class Keys:
    """All keys of one namespace ("" is the default one).

    The namespace stands in front: `NAMESPACE:streamer:...`. No namespace holds a colon, so two namespaces
    never share a key. All keys of a run carry the hash tag `{RUN}` and therefore lie in one cluster slot. Ids
    are percent-encoded (`streamer.schemas.identity.encode_id`).
    """

    namespace: str = ""

    @property
    def _root(self) -> str:
        return f"{self.namespace}:streamer" if self.namespace else "streamer"

    # Keys of one run

    def of_run(self, run_id: str, suffix: str) -> str:
        """Key of a run from its suffix, such as `run`, `tier:T0` or `versions`."""
        return f"{self._root}:{{{encode_id(run_id)}}}:{suffix}"

    def run(self, run_id: str) -> str:
        """String: the run's summary."""
        return self.of_run(run_id, "run")

    def agent_model(self, run_id: str, agent: str, model: str) -> str:
        """String: summary of an agent:model over the run."""
        return self.of_run(run_id, GroupId(None, agent, model).redis_suffix)

    def tier(self, run_id: str, tier: str) -> str:
        """String: summary of a tier, pooled over the run's agents."""
        return self.of_run(run_id, GroupId(tier).redis_suffix)

    def tier_agent_model(self, run_id: str, tier: str, agent: str, model: str) -> str:
        """String: summary of an agent:model within a tier."""
        return self.of_run(run_id, GroupId(tier, agent, model).redis_suffix)

    def board(self, run_id: str, metric: str) -> str:
        """Sorted set: `AGENT:MODEL` by the metric, within the run."""
        return self.of_run(run_id, f"board:{metric}")

    def named_boards(self, run_id: str) -> str:
        """Set: `metrics/NAME` of every named metric that has had a board within the run."""
        return self.of_run(run_id, "named_boards")

    def agent_models(self, run_id: str) -> str:
        """Set: `AGENT:MODEL` of every agent:model that has a summary."""
        return self.of_run(run_id, "agent_models")

    def tiers(self, run_id: str) -> str:
        """Set: `TIER` of every tier that has a summary."""
        return self.of_run(run_id, "tiers")

    def tier_agent_models(self, run_id: str, tier: str) -> str:
        """Set: `AGENT:MODEL` of every agent:model that has a summary within the tier."""
        return self.of_run(run_id, f"{GroupId(tier).redis_suffix}:agent_models")

    def in_flight(self, run_id: str) -> str:
        """Hash: the slot of each trial in flight, as in the topic `scored-trials`, to its JSON."""
        return self.of_run(run_id, "in_flight")

    def comparisons(self, run_id: str) -> str:
        """String: every two agents of the run compared, and their ranks."""
        return self.of_run(run_id, COMPARISON.redis_suffix)

    def tasks(self, run_id: str) -> str:
        """Hash: `TASK`, or `TIER|SUBTEST|TASK`, to the JSON of {agent:model: [known, passed, unknown]}."""
        return self.of_run(run_id, "tasks")

    def history(self, run_id: str) -> str:
        """Stream: one entry per emission, capped."""
        return self.of_run(run_id, "history")

    def versions(self, run_id: str) -> str:
        """Hash: key suffix to `epoch:state_version`, the guard against older writers."""
        return self.of_run(run_id, "versions")

    def writer(self, run_id: str) -> str:
        """String: mark of the last write, by which a worker sees that another write came between."""
        return self.of_run(run_id, "writer")

    def notices(self, run_id: str) -> str:
        """Hash: the notices that `streamer notify` sent for the run."""
        return self.of_run(run_id, "notices")

    # Keys across runs

    @property
    def runs(self) -> str:
        """Sorted set: `RUN` by last event time, Unix seconds."""
        return f"{self._root}:runs"

    def benchmark_board(self, benchmark: str, metric: str) -> str:
        """Sorted set: `RUN|AGENT:MODEL` by the metric, over all runs of a benchmark."""
        return f"{self._root}:board:{encode_id(benchmark)}:{metric}"

    def benchmark_named_boards(self, benchmark: str) -> str:
        """Set: `metrics/NAME` of every named metric that has had a board over the runs of a benchmark."""
        return f"{self._root}:named_boards:{encode_id(benchmark)}"

    @property
    def updates(self) -> str:
        """Pub/sub channel: one message per emission."""
        return f"{self._root}:updates"

    @property
    def all_notices(self) -> str:
        """Hash: the notices that `streamer notify` sent for no single run."""
        return f"{self._root}:notices"

    @property
    def workers(self) -> str:
        """Hash: worker id to its last heartbeat."""
        return f"{self._root}:workers"

    @property
    def stack_problem(self) -> str:
        """String: why `streamer up` accepts no events, as long as it accepts none."""
        return f"{self._root}:stack_problem"
