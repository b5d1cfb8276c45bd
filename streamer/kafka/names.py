"""Names of the topics and of the workers' consumer group.

>>> names = Names()
>>> names.trial_events, names.group
('trial-events', 'streamer')
>>> Names("team-a").trial_events, Names("team-a").group
('team-a.trial-events', 'team-a.streamer')
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    """The names in Kafka of one namespace ("" is the default one).

    The namespace stands in front: `NAMESPACE.topic`. No topic of ours holds a dot, so two namespaces never
    share a name.
    """

    namespace: str = ""

    def topic(self, name: str) -> str:
        """Name of the topic `name` in this namespace."""
        return f"{self.namespace}.{name}" if self.namespace else name

    @property
    def trial_events(self) -> str:
        """The events of the harnesses; the log everything is rebuilt from (retention.ms=-1)."""
        return self.topic("trial-events")

    @property
    def trial_rejections(self) -> str:
        """Records that were not folded, with the reason."""
        return self.topic("trial-rejections")

    @property
    def scored_trials(self) -> str:
        """Each slot's winner, scored (compacted)."""
        return self.topic("scored-trials")

    @property
    def grade_changes(self) -> str:
        """News: grades that moved, trials that were re-scored."""
        return self.topic("grade-changes")

    @property
    def agent_model_summaries(self) -> str:
        """Summaries of agent:models (compacted); changelog of the table of that name."""
        return self.topic("agent-model-summaries")

    @property
    def tier_summaries(self) -> str:
        """Summaries of tiers, and of agent:models within them (compacted); changelog likewise."""
        return self.topic("tier-summaries")

    @property
    def run_summaries(self) -> str:
        """Summaries of runs (compacted); changelog likewise."""
        return self.topic("run-summaries")

    @property
    def run_comparisons(self) -> str:
        """Comparisons of a run's agents (compacted); changelog likewise."""
        return self.topic("run-comparisons")

    @property
    def trials_changelog(self) -> str:
        """State pages, the changelog of the table `trials` (compacted)."""
        return self.topic("trials-changelog")

    @property
    def streamer_meta(self) -> str:
        """The epoch, the name of the log and the current configuration (compacted)."""
        return self.topic("streamer-meta")

    @property
    def group(self) -> str:
        """Consumer group of the workers."""
        return self.topic("streamer")
