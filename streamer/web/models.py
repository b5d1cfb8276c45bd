"""Answers and questions of the API, besides the summaries.

Numbers that are not finite are the texts "Infinity", "-Infinity" and "NaN" (R14).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from streamer.client.feeds import NotInLog
from streamer.client.folded import NothingYet
from streamer.client.queries import (
    RUNS_PER_PAGE,
    RedisUnavailable,
    UnknownBenchmark,
    UnknownMetric,
    UnknownRun,
    UnreadableSummary,
)
from streamer.folding.breakdowns import UnknownLabel
from streamer.folding.fold import CannotBeFolded
from streamer.schemas.base import (
    MAX_METRIC_NAME_CHARACTERS,
    METRIC_NAME,
    Instant,
    Message,
    Number,
    canonical_json,
    optional,
)
from streamer.schemas.events import BOARD_METRICS, NAMED, PRIMARY_METRIC, Artifact, TrialResult
from streamer.schemas.summaries import (
    AgentModelSummary,
    Grade,
    GradeBasis,
    NamedMetrics,
    RunComparison,
    RunSummary,
    State,
    Statistics,
    TierSummary,
    TrialInFlight,
)
from streamer.schemas.wire import BadPosition
from streamer.storage.kafka import KafkaError, TopicMissing, TopicUnreadable
from streamer.views.decide.comparable import ABOUT_ALLOWED, ALLOWED
from streamer.views.decide.compare import PairStanding
from streamer.views.decide.gate import NoSuchSide
from streamer.views.decide.ledger import NoSuchLedger
from streamer.views.models import (
    Label,
    MatrixMetric,
    MatrixSort,
    TooManyCells,
    TrialOutcome,
    TrialRow,
    described,
)
from streamer.views.why import UnknownAgent
from streamer.web.artifacts import CannotBeOpened
from streamer.web.report import ParquetMissing

MAX_PAGE = 500
MAX_POINTS = 2000

TrialSort = Literal[
    "latest", "task", "agent", "tier", "outcome", "composite_score", "cost_usd", "duration_seconds"
]
RunSort = Literal["last", "run", "benchmark", "state", "trials", "accuracy", "total_cost", "agents", "tiers"]
_NAMED_METRIC: JsonValue = {
    "type": "string",
    "pattern": METRIC_NAME.replace("^", f"^{NAMED}", 1),
    "maxLength": len(NAMED) + MAX_METRIC_NAME_CHARACTERS,
}
MetricName = Annotated[
    str, Field(json_schema_extra={"anyOf": [{"enum": list(BOARD_METRICS)}, _NAMED_METRIC]})
]
"""A built-in METRIC, or `metrics/NAME` of a named one (R30)."""


def _allowed(name: str) -> str:
    if name not in ALLOWED:
        raise ValueError(f"{name!r} cannot be allowed; use one of {', '.join(ALLOWED)}")
    return name


Allowed = Annotated[str, AfterValidator(_allowed), Field(json_schema_extra={"enum": list(ALLOWED)})]
"""Differences between the sides that `--allow` of `streamer compare` accepts."""


class LabelGroup(Message):
    """The trials of a run with one value of a label, as in `streamer query run --by label:KEY --json`.

    Its other fields are a summary's.
    """

    label: str = Field(description="The label that the run is broken down by.")
    value: str | None = Field(description="Its value; null: the trials without it, which come last.")
    agent_model: Label | None = Field(description="Null: all agents together, without the baselines.")
    trials: int = Field(ge=0, description="How many trials.")
    resolved: int = Field(ge=0, description="Trials that the harness calls resolved.")
    accuracy: float | None = Field(ge=0, le=1, description="resolved / trials.")
    statistics: dict[str, Statistics] = Field(description="Metric to its statistics, as in summaries.")
    metrics: NamedMetrics


class LeaderboardRow(Message):
    """One place on a board; the same object that `streamer query leaderboard --by-run --json` prints."""

    rank: int = Field(ge=1, description="From 1; equal values share a rank.")
    run: str = Field(description="Run id.")
    agent_model: Label
    metric: MetricName = Field(description="METRIC of the board.")
    value: Number = Field(description="In the unit of the metric.")
    provisional: bool = Field(description="Planned trials are missing; such rows come last.")
    state: State = Field(description="Of the run, as in `RunNow`.")
    grade: Grade | None = Field(description="Grade of the agent:model over the run (R13).")
    grade_basis: GradeBasis | None = Field(description="What the grade rests on (R13).")
    grade_provisional: bool = Field(description="Trials of a judged agent wait for their judge (R13).")
    trials: int = Field(ge=0, description="Trials that the value rests on.")


class ListedTrial(TrialRow):
    """A trial in a list, with its repeat and the reason of a failure; null: the harness did not say."""

    trial_name: str | None = described(TrialResult, "trial_name")
    finished_at: Instant | None = optional("When it ended.")
    reason: str | None = optional("The line of a failed trial's message that says why.")


class TrialArtifact(Message):
    """A file that a trial left, or a link to one."""

    number: int = Field(ge=0, description="Its place in the list; it stands in the path that shows it.")
    name: str = described(Artifact, "name")
    path: str | None = described(Artifact, "path")
    url: str | None = described(Artifact, "url")
    media_type: str | None = described(Artifact, "media_type")
    closed: str | None = Field(description="Why this server cannot show it; null: it can, or it is a link.")


class TrialEvent(Message):
    """Facts from the harness about a trial besides its numbers; null: it did not say."""

    trial_id: str | None = described(TrialResult, "trial_id")
    trial_name: str | None = described(TrialResult, "trial_name")
    started_at: Instant | None = Field(description="Start.")
    finished_at: Instant | None = Field(description="End.")
    labels: dict[str, str] = Field(description="Free labels of the trial; empty: none.")
    message: str | None = described(TrialResult, "message")
    artifacts: list[TrialArtifact] = Field(description="In the order of the event; empty: none.")


class TrialPage(Message):
    """A page of the scored trials of a run."""

    total: int = Field(ge=0, description="Trials of the run.")
    matching: int = Field(ge=0, description="Trials that the filters leave.")
    offset: int = Field(ge=0, description="So many matching ones come before this page.")
    trials: list[ListedTrial] = Field(description="At most `limit`.")


class RunSnapshot(Message):
    """Everything about a run, from one moment."""

    run: RunSummary = Field(description="The run.")
    agents: list[AgentModelSummary] = Field(description="Its agent:models, baselines too, by label.")
    tiers: list[TierSummary] = Field(description="Its tiers, each followed by the agent:models within it.")
    in_flight: list[TrialInFlight] = Field(
        description="Trials that have started and have no result, the longest first; 1,000 at most."
    )


class ComparedAgents(Message):
    """The comparison of a run's agents, from one moment."""

    comparison: RunComparison | None = Field(description="As published; null: fewer than two agents.")
    pairs: list[PairStanding] = Field(description="Every two agents, in the order of `comparison.pairs`.")


class Health(Message):
    """Whether this server follows Redis."""

    following: bool = Field(description="False while Redis does not answer, or refuses.")
    viewers: int = Field(ge=0, description="Open streams of updates.")
    rooms: int = Field(ge=0, description="Runs held for viewers.")
    subscriptions: int = Field(ge=0, le=1, description="Redis subscriptions of this process.")
    problem: str | None = Field(description="Why it does not follow.")


class RejectedEvent(Message):
    """An event that the worker rejects, or that has a score outside 0 to 1 and was not published."""

    number: int = Field(ge=1, description="Of its line, or of its element in the array, from 1.")
    code: str = Field(description="Stable reason code, as in the rejection.")
    message: str = Field(description="What is wrong, where, what is allowed, what to do.")


class PublishedEvents(Message):
    """The result of publishing a body of events, all of which the broker has acknowledged."""

    accepted: int = Field(ge=0, description="Valid events.")
    rejected: int = Field(ge=0, description="Invalid events, in `rejections`.")
    rejections: list[RejectedEvent] = Field(description="Why; the first 100.")
    ignored: dict[str, int] = Field(
        description="Fields that their events lack, and how often each came; at most 100. They do nothing."
    )
    remarks: list[str] = Field(
        description="What counts as missing in accepted events, a sentence a run; the first 100."
    )


class Problem(Message):
    """A problem as an answer of the API (RFC 9457, `application/problem+json`)."""

    title: str = Field(description="The kind of problem.")
    status: int = Field(ge=400, le=599, description="HTTP status.")
    detail: str = Field(description="What was wrong, what is allowed, what to do.")


class Query(BaseModel):
    """Base of query parameters; unknown parameters are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NoQuery(Query):
    """Nothing."""


class ViewQuery(Query):
    """The drawings that the page requests from a stream, in addition to the summaries."""

    view: Literal["runs", "board", "tiers", "part"] | None = optional("Tables of this view, as elements.")
    grades: bool = optional("Show grades also in a run without tiers and judge.", False)
    within: bool = optional("Tiers by agent, not pooled.", False)
    spread: str = optional("The metric whose spread tiers show.", "pass_rate", max_length=64)
    cost: str = optional("The cost that quality is drawn against.", "", max_length=64)
    quality: str = optional("The metric drawn against it; empty: the primary one.", "", max_length=200)
    narrow: bool = optional("Draw it for a phone.", False)


class AsOfQuery(Query):
    as_of: str | None = optional(
        "Count only events up to this offset (a `state_version`) or time (with zone); folds the "
        "log of the run again.",
        max_length=64,
    )


class RunSheetQuery(AsOfQuery):
    tab: Literal["board", "tiers", "tasks", "trials", "compare"] | None = optional(
        "Part of the live page that the page links to."
    )


class TimeQuery(Query):
    as_of: str | None = optional(
        "Count only events up to this time (with zone); folds the whole log again.", max_length=64
    )


class RunsQuery(TimeQuery):
    search: str = optional(
        "In run id, name, benchmark or label (KEY=VALUE), in any case.", "", max_length=512
    )
    label: list[str] = optional("Only runs with this label, KEY=VALUE; repeatable.", [])
    offset: int = optional("Skip so many.", 0, ge=0)
    sort: RunSort = optional("Order, by a column of the page; unknown values come last.", "last")
    descending: bool | None = optional("Greatest first; not given: as the page sorts first by the column.")
    limit: int = optional("At most so many.", RUNS_PER_PAGE, ge=1, le=MAX_PAGE)


class WhyQuery(AsOfQuery):
    metric: MetricName = optional("METRIC of docs/redis.md, or metrics/NAME.", PRIMARY_METRIC)
    agent: str | None = optional("Only this agent, or agent:model; default: all except baselines.")
    since: str | None = optional("Only what moved it after this offset or time.", max_length=64)
    limit: int = optional("At most so many moves.", 100, ge=1, le=MAX_PAGE)


class UnfinishedQuery(AsOfQuery):
    limit: int = optional("List at most so many trials.", 100, ge=1, le=MAX_PAGE)


class OutlookQuery(AsOfQuery):
    budget: float | None = optional("USD that the run should not cost more than.", ge=0, allow_inf_nan=False)


class TiersQuery(AsOfQuery):
    within: bool = optional("Also each agent:model within each tier.", False)


class BoardsQuery(Query):
    metric: MetricName = optional("METRIC of docs/redis.md, or metrics/NAME.", "pass_rate")
    run: str | None = optional("Only this run.")
    benchmark: str | None = optional("Only runs of this benchmark.")
    label: list[str] = optional("Only runs with this label, KEY=VALUE; repeatable.", [])
    as_of: str | None = optional(
        "Count only events up to this time (with zone), or with `run` up to this offset; folds "
        "the log again.",
        max_length=64,
    )


class LeaderboardQuery(BoardsQuery):
    limit: int | None = optional("At most so many rows.", ge=1)


class LeaderboardsQuery(BoardsQuery):
    all_benchmarks: bool = optional("One board, all benchmarks mixed.", False)


class TasksQuery(Query):
    benchmark: str = Field(description="Only runs of this benchmark.")


class TaskSheetQuery(Query):
    benchmark: str | None = optional("Only runs of this benchmark.")
    run: str | None = optional("Runs of the same benchmark as this run; if it has none, this run alone.")


class HistoryQuery(Query):
    kind: Literal["run", "agent_model", "tier"] | None = optional("Only these.")
    points: int = optional("At most so many per group, the latest always.", 400, ge=2, le=MAX_POINTS)


class TrialsQuery(Query):
    task: str | None = optional("Only this task.")
    tier: str | None = optional("Only this tier.")
    agent: str | None = optional("Only this agent, or agent:model.")
    outcome: TrialOutcome | None = optional("Only these.")
    failure_mode: str | None = optional("Only failed trials of this mode; empty: those without one.")
    kind: str | None = optional("Only failed trials of this `kind` of `/failures`.")
    search: str | None = optional("In task, agent:model or failure mode; case is ignored.", max_length=512)
    sort: TrialSort = optional("Order; unknown values come last.", "latest")
    descending: bool = optional("Greatest first.", False)
    offset: int = optional("Skip so many.", 0, ge=0)
    limit: int = optional("At most so many.", 100, ge=1, le=MAX_PAGE)


class MatrixQuery(AsOfQuery):
    metric: MatrixMetric = optional("Averaged in each cell; outcome: none.", "outcome")
    sort: MatrixSort = optional("Order of the tasks.", "difficulty")


class CompareQuery(Query):
    a: str = Field(description="Run of the first side.")
    b: str = Field(description="Run of the second side.")
    a_agent: str | None = optional("Agent:model of the first side; all if not given.")
    b_agent: str | None = optional("Agent:model of the second side.")
    allow: list[Allowed] = optional(ABOUT_ALLOWED, [])
    offset: int = optional("Skip so many tasks.", 0, ge=0)
    limit: int = optional("At most so many tasks.", 100, ge=1, le=MAX_PAGE)


# -----------------------------------------------------------------------------
# Errors as answers of the API (RFC 9457).


MEDIA_TYPE = "application/problem+json"


RETRY_SECONDS = 2
"""Seconds before a client should repeat a request."""


class Refused(Exception):
    """A refused request; the message says what is allowed and what to do.

    `status` is the HTTP status. `again` says whether the same request may succeed soon.
    """

    status: ClassVar[int]
    again: ClassVar[bool] = False


_UNKNOWN = (UnknownRun, UnknownBenchmark, UnknownAgent, NoSuchSide, UnknownLabel, NoSuchLedger)

_KINDS: dict[int, tuple[type[Exception], ...]] = {
    # a client that disconnects before the end of the body gets no answer
    400: (UnknownMetric, BadPosition, ClientDisconnect),
    404: (*_UNKNOWN, NothingYet, NotInLog, CannotBeOpened),
    409: (CannotBeFolded,),
    422: (TooManyCells,),
    501: (ParquetMissing,),
    502: (UnreadableSummary,),
    503: (RedisUnavailable, KafkaError, TopicMissing, TopicUnreadable),
}


def problem(status: int, detail: str, *, again: bool = False) -> Response:
    """A problem as an answer; `again` adds when to repeat the request."""
    content = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    answer = Response(canonical_json(content.model_dump()), status, media_type=MEDIA_TYPE)
    answer.headers["cache-control"] = "no-store"
    if again:
        answer.headers["retry-after"] = str(RETRY_SECONDS)
    return answer


def status_of(error: Exception) -> int | None:
    """HTTP status of an expected error; None for our own mistakes."""
    if isinstance(error, Refused):
        return error.status
    return next((status for status, kinds in _KINDS.items() if isinstance(error, kinds)), None)


# -----------------------------------------------------------------------------
# One path of the API: its parameters and its answer.


JSON = "application/json"

Item = TypeVar("Item", bound=BaseModel)


class Page(list[Item]):
    """A part of a list of `total` items, a number that the header X-Total-Count repeats."""

    def __init__(self, items: Iterable[Item], total: int) -> None:
        super().__init__(items)
        self.total = total


Answer = BaseModel | Sequence[BaseModel] | bytes


class BadQuery(Refused):
    status = 400


Q = TypeVar("Q", bound=Query)


def checked(model: type[Q], given: Mapping[str, Any], besides: Iterable[str] = ()) -> Q:
    """A query with these parameters; raises BadQuery. Parameters `besides` its own are allowed, too."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        allowed = ", ".join([*besides, *model.model_fields]) or "nothing"
        raise BadQuery(f"{'.'.join(map(str, first['loc']))}: {first['msg']}. Allowed: {allowed}") from error


class NoSuchTask(Refused):
    status = 404

    def __init__(self, task: str) -> None:
        super().__init__(
            f"No trial of a task {task!r} has a verdict; /api/tasks lists the tasks that have one"
        )


class NoSuchTrial(Refused):
    status = 404

    def __init__(self, run_id: str, trial_id: str) -> None:
        super().__init__(f"Run {run_id!r} has no trial {trial_id!r}; /api/runs/.../trials lists its trials")


@dataclass(frozen=True, slots=True)
class Operation:
    """One path of the API.

    `path` has its parameters in braces. With `many`, the answer is a list of `model`. If `media` is not JSON,
    the answer is a file as bytes.
    """

    path: str
    summary: str
    query: type[Query]
    model: type[BaseModel]
    many: bool
    answer: Callable[..., Awaitable[Answer]]
    media: str = JSON

    @property
    def file_name(self) -> str | None:
        return None if self.media == JSON else self.path.rpartition("/")[2]
