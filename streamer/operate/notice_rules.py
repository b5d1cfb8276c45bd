"""Which notice is due (start, end, grade, budget, stall, lead, target, ledger, estimate), and what was sent.

A run's memory has the fields `grade:GROUP` (the last grade), `ledger:NAME:AGENT:MODEL` (the last verdict),
`stalls` (how many were sent), and each notice's key. A key holds `pending` until the notice was delivered or
dropped, then `told`. Facts from before the watch are `adopted`: noted, but not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, cast

from streamer.client.readers import TIMEOUT_SECONDS
from streamer.schemas.base import agent_model_key
from streamer.schemas.summaries import NO_PLAN, RunSummary, is_over, plan_words, state_and_status, state_of
from streamer.settings import Settings
from streamer.statistics.ability import Reach, cannot_be_overtaken
from streamer.storage.entries import Keys
from streamer.storage.redis import UNREACHABLE, async_client
from streamer.text import counted, dollars, visible
from streamer.views import columns
from streamer.views.cells import finite, resolved_of, text, trials_of_planned
from streamer.views.columns import accuracy, accuracy_name, best_first, grade_with_basis
from streamer.views.decide.history import Decision, decision_words
from streamer.views.decide.ledger import LedgerCandidate, LedgerResult, amount
from streamer.views.decide.outlook import budget_of, eta_of, usd_words

# -----------------------------------------------------------------------------
# A notice and its words: plain text, in which an agent's text cannot act on the reader's program.


Json = Mapping[str, Any]

MAX_NAME = 120

MAX_LINES = 12

_LOOKALIKES = str.maketrans(
    {"@": "＠", "<": "‹", ">": "›", "&": "＆", "[": "［", "]": "］", "`": "ˋ", "*": "∗", "|": "∣", "#": "＃"}
)


@dataclass(frozen=True, slots=True)
class Notification:
    """A notice to send once per run ("": no run) and `key`, such as `finished:completed`.

    `again`: an earlier process decided to send it, but ended before delivery.
    """

    run_id: str
    key: str
    title: str
    body: str
    again: bool = False


def named(value: object) -> str:
    """An untrusted name, escaped so that chat services find no mention, link or markup in it.

    >>> named("<!channel> @all"), named("https://evil.example"), named("*x*")
    ('‹!channel› ＠all', 'https:⁄⁄evil.example', '∗x∗')
    """
    text = visible(value).translate(_LOOKALIKES).replace("://", ":⁄⁄")
    return text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 1]}…"


def run_name(run: Json) -> str:
    shown = run["display_name"]
    return f"{named(shown)} ({named(run['run_id'])})" if shown else named(run["run_id"])


def run_line(run: Json) -> str:
    trials = trials_of_planned(run["progress"]["done"], run["progress"]["planned"])
    trials += f" ({words})" if (words := plan_words(run)) not in ("", NO_PLAN) else ""
    resolved = resolved_of(run["resolved"], run["trials"], run.get("verdict_trials"))
    return f"{trials}, {resolved}, {accuracy_name(run)} {accuracy(run)}, cost {dollars(run['total_cost'])}"


def board(agents: Sequence[Json], primary: str) -> str:
    ranked = sorted((agent for agent in agents if not agent["baseline"]), key=best_first(primary))
    first = [column for column in columns.named_of(ranked) if column.name == primary]
    lines = [
        f"{named(agent['agent_model'])}: "
        + "".join(f"{named(column.title)} {text(column, agent)}, " for column in first)
        + f"grade {grade_with_basis(agent)}, accuracy {accuracy(agent)}, cost {dollars(agent['total_cost'])}"
        for agent in ranked[:MAX_LINES]
    ]
    if len(ranked) > MAX_LINES:
        lines.append(f"and {len(ranked) - MAX_LINES} more")
    return "\n".join(lines)


def group_name(group: Json) -> str:
    return f"tier {named(group['tier'])}" if group.get("tier") is not None else named(group["agent_model"])


# -----------------------------------------------------------------------------
# Facts from the hard bounds of a run's agents: the leader, and whether the target is met. Pure.
#
# They need no assumption about the order of trials (inference 4).


class Leader(NamedTuple):
    label: str
    lowest: float
    others: float


class Settled(NamedTuple):
    label: str
    word: Literal["reached", "out of reach"]
    bound: float


class _Agent(NamedTuple):
    label: str
    compared: bool
    planned: int
    reach: Reach | None


@dataclass(slots=True)
class Race:
    _agents: dict[str, _Agent] = field(default_factory=dict)

    def hear(self, agent: Json) -> None:
        reachable = (agent["uncertainty"] or {}).get("reachable")
        reach = None if reachable is None else Reach(**reachable["pass_rate"])
        key = agent_model_key(agent["agent"], agent["model"])
        planned = agent["runs_planned"] or 0
        self._agents[key] = _Agent(agent["agent_model"], not agent["baseline"], planned, reach)

    def forget(self, key: str) -> None:
        self._agents.pop(key, None)

    def leader(self, run: Json) -> Leader | None:
        """The agent that can no longer be overtaken; None if this is open, or if the whole run is decided.

        All agents need bounds, and all planned trials a known agent.
        """
        compared = [agent for agent in self._agents.values() if agent.compared]
        bounded = [(agent.reach, agent.label) for agent in compared if agent.reach is not None]
        over = all(reach.low == reach.high for reach, _ in bounded)
        if len(bounded) < max(2, len(compared)) or over or self._awaits_agents(run):
            return None
        (ahead, label), *others = sorted(bounded, reverse=True)
        if not all(cannot_be_overtaken(ahead, other) for other, _ in others):
            return None
        return Leader(label, ahead.low, max(other.high for other, _ in others))

    def settled(self, target: float) -> Iterator[Settled]:
        """The agents that are certain to meet the target, a share from 0 to 1, or to miss it."""
        for agent in self._agents.values():
            reach = agent.reach if agent.compared else None
            if reach is not None and reach.low >= target:
                yield Settled(agent.label, "reached", reach.low)
            elif reach is not None and reach.high < target:
                yield Settled(agent.label, "out of reach", reach.high)

    def _awaits_agents(self, run: Json) -> bool:
        return (run["progress"]["planned"] or 0) > sum(agent.planned for agent in self._agents.values())


# -----------------------------------------------------------------------------
# Whether a run will pass its budget, by the forecast of its cost. Pure.


def budget_ahead(run: Json, usd: float) -> str | None:
    """The forecast in words, if its whole interval is above the budget and the budget is not yet spent."""
    summary = RunSummary.model_validate(run)
    pace = eta_of(summary)
    if pace.projected_usd is None:
        return None
    forecast = budget_of(usd, finite(summary.total_cost), pace).standing
    return usd_words(pace.projected_usd) if forecast == "will_pass" else None


# -----------------------------------------------------------------------------
# From summaries to notices. Pure: time and memory are arguments.


ADOPTED, PENDING, TOLD = "adopted", "pending", "told"
UNLESS_CORRECTED = "unless results are corrected"
OLD = timedelta(days=1)
"""A run without progress for this long before the watch does not count as stalled until it moves."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for notices besides start, end, grades and the leader; None turns a rule off.

    A run counts as stalled `stalled_after` its last event while it is not over.
    """

    budget_usd: float | None = None
    stalled_after: timedelta | None = None
    rejections_per_minute: float | None = None
    target: float | None = None


@dataclass(slots=True)
class RunMemory:
    """The known facts about one run.

    `told` is its memory, with new fields in `changed` until the caller drains it. A `strange` run began
    before the watch and has no memory, so its past is adopted. `moved_at` is the time of its last progress;
    None: too long ago.
    """

    told: dict[str, str]
    strange: bool
    new: bool
    changed: dict[str, str] = field(default_factory=dict)
    run: Json | None = None
    is_over: bool = False
    was_over: bool = False
    moved_at: datetime | None = None
    on_the_way: set[str] = field(default_factory=set)
    race: Race = field(default_factory=Race)

    def note(self, key: str, value: str) -> None:
        self.told[key] = self.changed[key] = value

    def once(self, key: str, about: str, what: str, body: str, run_id: str) -> Notification | None:
        """The notice, unless it was sent, or this process is sending it."""
        if self.told.get(key) in (ADOPTED, TOLD) or key in self.on_the_way:
            return None
        again = self.told.get(key) == PENDING
        self.told[key] = PENDING  # the process that claims it writes it down
        self.on_the_way.add(key)
        return Notification(run_id, key, f"{about} {what}", body, again)


class Decider:
    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._runs: dict[str, RunMemory] = {}

    def knows(self, run_id: str) -> bool:
        return run_id in self._runs

    def begin(self, run_id: str, remembered: Mapping[str, str], *, new: bool) -> None:
        self._runs[run_id] = RunMemory(dict(remembered), not new and not remembered, new)

    def forget(self, run_id: str) -> None:
        self._runs.pop(run_id, None)

    def forget_agent(self, run_id: str, key: str) -> None:
        if memory := self._runs.get(run_id):
            memory.race.forget(key)

    def changed(self, run_id: str) -> dict[str, str]:
        memory = self._runs.get(run_id)
        if memory is None:
            return {}
        fresh, memory.changed = memory.changed, {}
        return fresh

    def delivered(self, notice: Notification) -> None:
        if memory := self._runs.get(notice.run_id):
            memory.told[notice.key] = TOLD

    def take(self, summary: Json, now: datetime, agents: Sequence[Json] = ()) -> list[Notification]:
        """The notices after a changed summary; `agents` are a finished run's, for the board in its notice."""
        memory = self._runs[summary["run_id"]]
        if summary["type"] == "run_summary":
            return self._run(memory, summary, now, agents) + self._settled(memory)
        if summary["type"] == "tier_summary":
            return _group(memory, summary) if summary["agent_model"] is None else []
        memory.race.hear(summary)
        return _group(memory, summary) + self._settled(memory)

    def estimated(self, run_id: str, decision: Decision) -> list[Notification]:
        """The notices that a run will, or will not, separate its first two agents; once each."""
        memory = self._runs.get(run_id)
        if memory is None or memory.run is None or memory.is_over:
            return []
        is_within = decision.pairs is not None and decision.pairs <= decision.pairs_left
        sides = {"ahead": named(decision.ahead), "behind": named(decision.behind)}
        body = f"{decision_words(decision.model_copy(update=sides))}\n{run_line(memory.run)}"
        what = f"estimate: it will {'' if is_within else 'not '}tell its top two agents apart"
        key = "decision:within" if is_within else "decision:beyond"
        notice = memory.once(key, run_name(memory.run), what, body, run_id)
        return [notice] if notice else []

    def judged(self, ledger: LedgerResult) -> list[Notification]:
        """The notices of a ledger, once each: a candidate is now better than its baseline, or no longer."""
        notices = []
        for one in ledger.candidates:
            memory = self._runs.get(one.run_id)
            if memory is not None and memory.run is not None:
                notices.append(_judged(memory, memory.run, ledger, one))
        return [notice for notice in notices if notice]

    def tick(self, now: datetime) -> list[Notification]:
        notices = (self._stalled(memory, now) for memory in self._runs.values())
        return [notice for notice in notices if notice]

    def _run(self, memory: RunMemory, run: Json, now: datetime, agents: Sequence[Json]) -> list[Notification]:
        before, memory.run = memory.run, run
        memory.is_over = is_over(RunSummary.model_validate(run))
        if before is None:
            memory.was_over = memory.is_over and memory.strange
            memory.moved_at = now if memory.new else _last_moved(run, now)
            if memory.strange:
                self._adopt(memory, run)
        elif run["state_version"] != before["state_version"]:
            memory.moved_at = now
        about, run_id = run_name(run), run["run_id"]
        notices = [memory.once("started", about, "started", run_line(run), run_id)]
        if run["status"] is not None:
            body = "\n".join(part for part in (run_line(run), board(agents, columns.primary_of(run))) if part)
            word = named(state_and_status(state_of(run, now), run["status"]))
            notices.append(memory.once(_finished(run), about, word, body, run_id))
        if self._is_over_budget(run):
            what = f"is over its budget of {dollars(self._rules.budget_usd)}"
            notices.append(memory.once(self._budget_key(), about, what, run_line(run), run_id))
        elif (usd := self._rules.budget_usd) is not None and (forecast := budget_ahead(run, usd)):
            what, body = f"will pass its budget of {dollars(usd)}", f"{forecast}\n{run_line(run)}"
            notices.append(memory.once(f"budget-ahead:{usd!r}", about, what, body, run_id))
        return [notice for notice in notices if notice]

    def _settled(self, memory: RunMemory) -> list[Notification]:
        """The notices that follow from hard bounds of a known run; empty if it was over before."""
        run, target = memory.run, self._rules.target
        if run is None or memory.was_over:
            return []
        leader = None if memory.is_over else memory.race.leader(run)
        notices = [_ahead(memory, run, leader)] if leader else []
        if target is not None:
            notices += [_target(memory, run, settled, target) for settled in memory.race.settled(target)]
        return [notice for notice in notices if notice]

    def _adopt(self, memory: RunMemory, run: Json) -> None:
        """Adopt the past of a run without a memory, but its budget only if it is over: else that is still
        due.
        """
        memory.note("started", ADOPTED)
        if run["status"] is not None:
            memory.note(_finished(run), ADOPTED)
            if self._is_over_budget(run):
                memory.note(self._budget_key(), ADOPTED)

    def _is_over_budget(self, run: Json) -> bool:
        budget, cost = self._rules.budget_usd, run["total_cost"]
        return budget is not None and cost is not None and float(cost) > budget

    def _budget_key(self) -> str:
        return f"budget:{self._rules.budget_usd!r}"

    def _stalled(self, memory: RunMemory, now: datetime) -> Notification | None:
        """The notice of a stall. Each stall doubles the silence before the next notice."""
        run, after = memory.run, self._rules.stalled_after
        if run is None or after is None or memory.moved_at is None or memory.is_over:
            return None
        stalls = int(memory.told.get("stalls", 0))
        silent = now - memory.moved_at
        if silent < after * 2**stalls:
            return None
        what = f"is {state_of(run, now)}: no result for {silent.total_seconds() / 60:.0f} minutes"
        key = f"stalled:{run['epoch']}:{run['state_version']}"
        notice = memory.once(key, run_name(run), what, run_line(run), run["run_id"])
        if notice:
            memory.note("stalls", str(stalls + 1))
        return notice


def _group(memory: RunMemory, group: Json) -> list[Notification]:
    """The notice of a changed grade. A first grade is not a change, and baselines have none to report."""
    name, grade = _group_key(group), group["grade"]
    if grade is None or group.get("baseline"):
        return []
    last, key = memory.told.get(f"grade:{name}"), f"grade:{name}:{grade}"
    if last != grade:
        memory.note(f"grade:{name}", grade)
    unsent = memory.told.get(key) == PENDING  # decided by a process that ended before it was delivered
    if last is None or (last == grade and not unsent):
        return []
    words = columns.grade(group)
    moved = f"{last} → {words}" if last != grade else words
    grounds = columns.grade_with_basis(group)
    body = f"Grade {grounds}, {counted(group['trials'], 'trial')}, cost {dollars(group['total_cost'])}"
    about = run_name(memory.run) if memory.run else named(group["run_id"])
    notice = memory.once(key, about, f"{group_name(group)}: grade {moved}", body, group["run_id"])
    return [notice] if notice else []


def _ahead(memory: RunMemory, run: Json, leader: Leader) -> Notification | None:
    body = (
        f"It ends at {_percent(leader.lowest)} or more, and the run's other agents at "
        f"{_percent(leader.others)} or less, {UNLESS_CORRECTED} or another agent joins"
    )
    what = f"{named(leader.label)}: can no longer be overtaken"
    return memory.once(f"ahead:{leader.label}", run_name(run), what, body, run["run_id"])


def _target(memory: RunMemory, run: Json, settled: Settled, target: float) -> Notification | None:
    ends = "below" if settled.word == "reached" else "above"
    body = f"Its final pass rate cannot end {ends} {_percent(settled.bound)}, {UNLESS_CORRECTED}"
    what = f"{named(settled.label)}: target of {_percent(target)} {settled.word}"
    key = f"target:{target!r}:{settled.word}:{settled.label}"
    return memory.once(key, run_name(run), what, body, run["run_id"])


def _judged(memory: RunMemory, run: Json, ledger: LedgerResult, one: LedgerCandidate) -> Notification | None:
    field, is_better = f"ledger:{ledger.name}:{one.agent_model}", one.verdict == "better"
    last, key = memory.told.get(field), f"{field}:{'better' if is_better else 'lost'}"
    if last != one.verdict:
        memory.note(field, one.verdict)
    was_better = last == "better" or (last is None and memory.strange and is_better)
    if is_better == was_better and memory.told.get(key) != PENDING:
        return None
    of = f"{named(one.baseline)}, in ledger {named(ledger.name)}"
    what = f"{named(one.agent_model)}: {'' if is_better else 'no longer '}better than {of}"
    why = "" if is_better else "An older candidate came late, or results were corrected. "
    body = f"{why}{counted(ledger.tried, 'candidate')} tried, {ledger.better} better"
    if one.evidence is not None and one.needed is not None:
        body += f"; evidence {amount(one.evidence)}, {amount(one.needed)} needed at place {one.place}"
    return memory.once(key, run_name(run), what, body, run["run_id"])


def _percent(share: float) -> str:
    """Percent with two decimals, because one trial in thousands may decide."""
    return f"{share:.2%}".replace("%", " %")


def _group_key(group: Json) -> str:
    tier = group.get("tier")
    return f"agent_model={group['agent_model']}" if tier is None else f"tier={tier}"


def _finished(run: Json) -> str:
    return f"finished:{run['status']}"


def _last_moved(run: Json, now: datetime) -> datetime | None:
    if run["last_event_at"] is None:
        return now
    at = datetime.fromisoformat(run["last_event_at"])
    return None if now - at > OLD else min(at, now)


# -----------------------------------------------------------------------------
# The notices that were sent, in Redis, so that a restart does not send them again.


class Memory:
    """The hash `streamer:{RUN}:notices`, in which a watch has the fields that begin with its name.

    If Redis fails, `say` reports that once, and only this process remembers the notices it sent.
    """

    def __init__(self, settings: Settings, name: str, say: Callable[[str], None]) -> None:
        self._keys = Keys(settings.namespace)
        self._client = async_client(settings.redis, settings.redis_options(), TIMEOUT_SECONDS, retries=1)
        self._prefix = f"{name}:"
        self._say = say
        self._failing = False
        self._expire_seconds = settings.redis_expire_seconds

    async def load(self, run_id: str) -> dict[str, str]:
        """Notices sent for a run; "" is for notices without a run."""
        try:
            stored = await cast(Any, self._client.hgetall(self._key(run_id)))
        except UNREACHABLE as error:
            self._fail(error)
            return {}
        fields = {bytes(name).decode(): bytes(value).decode() for name, value in stored.items()}
        return {
            name.removeprefix(self._prefix): value
            for name, value in fields.items()
            if name.startswith(self._prefix)
        }

    async def save(self, run_id: str, fields: Mapping[str, str]) -> None:
        if not fields:
            return
        named = {f"{self._prefix}{name}": value for name, value in fields.items()}
        try:
            await cast(Any, self._client.hset(self._key(run_id), mapping=cast(Any, named)))
            if self._expire_seconds:
                await self._client.expire(self._key(run_id), self._expire_seconds)
            self._failing = False
        except UNREACHABLE as error:
            self._fail(error)

    async def claim(self, run_id: str, key: str) -> bool:
        """Whether this watch is the first with its name to claim the notice.

        A notice that a process left pending may be sent again by the next.
        """
        try:
            field = f"{self._prefix}{key}"
            return bool(await cast(Any, self._client.hsetnx(self._key(run_id), field, "pending")))
        except UNREACHABLE as error:
            self._fail(error)
            return True

    async def close(self) -> None:
        await self._client.aclose()

    def _key(self, run_id: str) -> str:
        return self._keys.notices(run_id) if run_id else self._keys.all_notices

    def _fail(self, error: Exception) -> None:
        if not self._failing:
            self._failing = True
            reason = str(error) or type(error).__name__
            self._say(f"Redis cannot record sent notices ({reason}): a restart may send them again")
