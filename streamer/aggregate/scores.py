"""Scoring: what stands in the slots of a run is scored, and its counts are kept in step (R9, R10).

The score of a slot is published as its scored trial: the specification's per-run numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any

from streamer.aggregate.changes import Judged, Rescoring, RunChanges
from streamer.aggregate.counts import Counts, Outcome
from streamer.aggregate.keys import GroupId, SlotKey, TrialGroupKey, fingerprint, groups_of, slot_key
from streamer.aggregate.roster import Roster
from streamer.aggregate.slots import Slot, event_of
from streamer.schemas.base import SEMANTICS_VERSION
from streamer.schemas.canonical import canonical_json, json_number, sha256_hex
from streamer.schemas.identity import agent_model_label
from streamer.schemas.plain import AnyTrial, PlainTrial
from streamer.score import (
    NOP,
    FormulaCodeScore,
    PriceTable,
    Scored,
    ScoringRules,
    deciding_sub_trial,
    fields_of,
    missing_score,
    score_trial,
    score_trial_group,
    task_payload,
)

_label = lru_cache(maxsize=4096)(agent_model_label)

_NOT_PUBLISHED = ("cache_read_tokens", "cache_write_tokens", "awaited")
"""Parts of a score that are counted only."""


class Scores:
    """Scores the slots of one run.

    Everything here follows from the slots and the rules, and could be derived from them again at any time.

    Attributes:
        rules: what the trials are scored by.
        roster: the trials in rows.
    """

    def __init__(
        self,
        slots: dict[SlotKey, Slot],
        prices: PriceTable,
        counts: Counts,
        changes: RunChanges,
    ) -> None:
        self.rules = ScoringRules(prices)
        self._slots = slots
        self._counts = counts
        self._changes = changes
        self.roster = Roster(self.rules.is_baseline)
        self._members: dict[TrialGroupKey, set[SlotKey]] = {}
        self._of_missing: dict[TrialGroupKey, FormulaCodeScore] = {}
        self._outcomes: dict[TrialGroupKey, Outcome] = {}

    def is_baseline(self, agent: str) -> bool:
        """See :meth:`~streamer.score.ScoringRules.is_baseline`."""
        return self.rules.is_baseline(agent)

    def groups_of(self, key: SlotKey) -> tuple[GroupId, ...]:
        """The groups that a slot counts in; baselines stay out of pooled tiers (R4)."""
        return groups_of(key.agent, key.model, key.tier, baseline=self.is_baseline(key.agent))

    def of(self, slot: Slot) -> Scored | None:
        """Score of what stands in a slot, None while it is empty."""
        if slot.scored is not None or slot.revision is None:
            return slot.scored
        return score_trial(event_of(slot.raw), self.rules)

    def count(self) -> None:
        """Count what waits."""
        if self._counts.waiting:
            self._changes.groups(self._counts.count(self.is_baseline))

    def score_all(self, rules: ScoringRules) -> None:
        """Score every slot by these rules; the counts are empty."""
        self.rules = rules
        self._members, self._outcomes, self._of_missing = {}, {}, {}
        self.roster = Roster(self.rules.is_baseline)
        for key, slot in self._slots.items():
            slot.scored, slot.row = None, -1
            if slot.starts:
                self.roster.start(key, slot)
            if slot.agent_index is not None:
                self._members.setdefault(key.trial_group, set()).add(key)
            elif slot.revision is not None:
                self._enter(key, slot, event_of(slot.raw))
        for group in list(self._members):
            self._score_group(group, None)

    def filled(self, key: SlotKey, slot: Slot, event: AnyTrial) -> None:
        """A result stands in a slot that held nothing before."""
        if event.agent_index is not None:
            slot.agent_index = event.agent_index
            self._members.setdefault(key.trial_group, set()).add(key)
            self._score_group(key.trial_group, key)
        else:
            self._enter(key, slot, event)

    def started(self, key: SlotKey, slot: Slot) -> None:
        """The starts of a slot's trial changed."""
        self.roster.start(key, slot)
        self._changes.groups(self.groups_of(key))

    def replaced(
        self, key: SlotKey, slot: Slot, raw: bytes, index: int | None, event: AnyTrial | None
    ) -> None:
        """Another result stands in the slot, or none: score again whatever that concerns.

        Args:
            raw: the event that stood in it before, empty if none did.
            index: that event's position in a multi-agent trial.
            event: the event that stands in it now, if it is at hand.
        """
        group = key.trial_group
        if index is not None:
            self._members[group].discard(key)
            if slot.agent_index is None:
                self._swap(key, slot, None)
        elif raw:
            self.roster.leave(key, slot)
            self._counts.leave(key, score_trial(event_of(raw), self.rules), single=True)
        if slot.revision is not None and slot.agent_index is None:
            self._enter(key, slot, event or event_of(slot.raw))
        elif slot.agent_index is not None:
            self._members.setdefault(group, set()).add(key)
        if index is not None or slot.agent_index is not None:
            self._score_group(group, key)

    def scored_trial(self, run_id: str, key: SlotKey, judged: Judged | None = None) -> bytes | None:
        """The scored trial of a slot with its digest, open at the end: the fields that tell the way follow.

        None: the slot is empty.

        Args:
            judged: the trial that stands in the slot and its score, if they are at hand.
        """
        slot = self._slots.get(key)
        if slot is None or slot.revision is None:
            return None
        event = judged.event if judged else event_of(slot.raw)
        scored = judged.scored if judged else slot.scored or score_trial(event, self.rules)
        body = fields_of(scored)
        for name in _NOT_PUBLISHED:
            del body[name]
        body.update(zip(SlotKey._fields, key, strict=True))
        body["type"] = "scored_trial"
        body["semantics_version"] = SEMANTICS_VERSION
        body["run_id"] = run_id
        body["agent_model"] = _label(key.agent, key.model)
        body["agent_index"] = slot.agent_index
        body["revision"] = slot.revision
        body["fingerprint"] = fingerprint(event)
        body["grade"] = self.rules.profile.grade(scored.composite_score)
        body["cost_of_pass"] = json_number(scored.cost_of_pass)
        body["formulacode"] = self._payload(key, event, scored)
        digested = canonical_json(body)
        return b'%b,"digest":"%b"' % (digested[:-1], sha256_hex(digested).encode())

    def trial_group(self, key: SlotKey) -> list[AnyTrial]:
        """The sub-trials of the trial that a slot belongs to, itself among them (R10)."""
        keys = {key} if self._slots[key].agent_index is None else self._members[key.trial_group]
        return [event_of(self._slots[member].raw) for member in sorted(keys, key=str)]

    def trial_groups(self) -> Mapping[TrialGroupKey, Collection[SlotKey]]:
        """The slots of each multi-agent trial."""
        return self._members

    def with_their_groups(self, keys: Collection[SlotKey]) -> Iterable[SlotKey]:
        """These slots, and those of the multi-agent trials that they belong to."""
        return chain(keys, *(self._members.get(key.trial_group, ()) for key in keys))

    def of_missing(self, group: TrialGroupKey) -> FormulaCodeScore:
        """FormulaCode's score of a planned agent that has no sub-trial in a trial (R21)."""
        if group not in self._of_missing:
            events = [event_of(self._slots[key].raw) for key in self._members[group]]
            self._of_missing[group] = missing_score(events)
        return self._of_missing[group]

    def _payload(self, key: SlotKey, event: AnyTrial, scored: Scored) -> dict[str, Any] | None:
        """The specification's per-agent task payload; None for a score without FormulaCode's part."""
        if scored.formulacode is None:
            return None
        return task_payload(
            event,
            self.trial_group(key) if scored.formulacode.fallback else (),
            scored.formulacode,
            success=scored.success,
            cost_usd=scored.cost_usd,
            trajectory_length=scored.trajectory_length,
        )

    def _enter(self, key: SlotKey, slot: Slot, event: AnyTrial) -> None:
        """A trial of its own is in."""
        scored = score_trial(event, self.rules)
        # FormulaCode's sections may be large, so a trial with them is not kept
        judged = Judged(event, scored) if isinstance(event, PlainTrial) else None
        self._changes.scored_trial(key, judged)
        self.roster.enter(key, slot, scored)
        if self._counts.enter(key, scored, single=True):
            self.count()

    def _score_group(self, group: TrialGroupKey, because: SlotKey | None) -> None:
        """Score all sub-trials of a trial group again (R9, R10)."""
        self._of_missing.pop(group, None)
        counted = self._outcomes.pop(group, None)
        if counted is not None:
            self._counts.totals.count_outcome(counted, -1)
        keys = sorted(self._members.get(group, ()), key=str)
        if not keys:
            self._members.pop(group, None)
            return
        events = [event_of(self._slots[key].raw) for key in keys]
        scores = score_trial_group(events, self.rules)
        for key, scored in zip(keys, scores, strict=True):
            before = self._slots[key].scored
            if before == scored:
                if scored.formulacode is not None and scored.formulacode.fallback:
                    self._changes.scored_trial(key)  # its payload lists the benchmarks that the others know
                continue
            if because is not None and key != because and before is not None:
                self._changes.rescored(Rescoring(key, because, before, scored))
            self._swap(key, self._slots[key], scored)
        decides = slot_key(deciding_sub_trial(events, self.is_baseline) or events[0])
        outcome = self._outcome(decides, scores[keys.index(decides)])
        self._counts.totals.count_outcome(outcome, 1)
        self._outcomes[group] = outcome

    def _outcome(self, key: SlotKey, scored: Scored) -> Outcome:
        """Outcome of the trial that this sub-trial decides."""
        measured = scored.formulacode
        return Outcome(
            task_id=key.task_id,
            tier=key.tier,
            resolved=scored.resolved,
            failure_mode=scored.failure_mode,
            speedup_percentage=measured.speedup_percentage if measured else None,
            compared=not self.is_baseline(key.agent),
            infrastructure_failure=scored.infrastructure_failure,
            with_benchmarks=measured is not None and measured.num_benchmarks > 0,
            unmeasured_failure=not scored.success and measured is None and key.agent != NOP,
        )

    def _swap(self, key: SlotKey, slot: Slot, scored: Scored | None) -> None:
        """Replace a sub-trial's score."""
        old, slot.scored = slot.scored, scored
        if old is not None:
            self.roster.leave(key, slot)
            self._counts.leave(key, old, single=False)
        if scored is not None:
            self.roster.enter(key, slot, scored)
            self._counts.enter(key, scored, single=False)
        self._changes.scored_trial(key)
