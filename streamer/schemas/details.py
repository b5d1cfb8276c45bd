"""What harnesses may say of a trial in words of their own: named metrics, labels, a message, artifacts."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, JsonValue, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from streamer.schemas.base import (
    METRIC_NAME,
    NO_CONTROL_CHARACTERS,
    Key,
    Message,
    MetricName,
    ShortText,
    SignedAmount,
)
from streamer.schemas.limits import (
    MAX_ARTIFACTS,
    MAX_LINK_CHARACTERS,
    MAX_MESSAGE_CHARACTERS,
    MAX_METRIC_NAME_CHARACTERS,
    MAX_METRICS,
    MAX_TEXT_CHARACTERS,
    MAX_TRIAL_LABEL_KEY_CHARACTERS,
    MAX_TRIAL_LABEL_VALUE_CHARACTERS,
    MAX_TRIAL_LABELS,
)

NAMED = "metrics/"
"""Where built-in metrics can stand too, a named one begins like this: `metrics/reward`."""

Metrics = Annotated[dict[MetricName, SignedAmount], Field(max_length=MAX_METRICS)]
"""Metric to its value."""

Direction = Literal["higher", "lower"]


class MetricPlan(Message):
    """How to read a named metric."""

    model_config = ConfigDict(extra="ignore")

    direction: Direction | None = Field(default=None, description="Which way is better; null: higher.")
    unit: ShortText | None = Field(default=None, description="Unit of the number, as USD or seconds.")
    label: ShortText | None = Field(default=None, description="Heading for people; null: the name.")


PlannedMetrics = Annotated[dict[MetricName, MetricPlan], Field(max_length=MAX_METRICS)]
PrimaryMetric = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=len(NAMED) + MAX_METRIC_NAME_CHARACTERS,
        pattern=METRIC_NAME,
    ),
]

TrialLabelKey = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_TRIAL_LABEL_KEY_CHARACTERS, pattern=NO_CONTROL_CHARACTERS),
]
TrialLabels = Annotated[
    dict[TrialLabelKey, Annotated[str, StringConstraints(max_length=MAX_TRIAL_LABEL_VALUE_CHARACTERS)]],
    Field(max_length=MAX_TRIAL_LABELS),
]
FailureMessage = Annotated[str, StringConstraints(max_length=MAX_MESSAGE_CHARACTERS)]

_TEXT = r"[^/\\\x00-\x1f\x7f-\x9f]"
_PART = rf"({_TEXT[:-1]}.]{_TEXT}*|\.{_TEXT[:-1]}.]{_TEXT}*|\.\.{_TEXT}+|\.)"
RELATIVE_PATH = rf"^{_PART}(/{_PART})*$"
"""Parts between slashes, none of them empty or `..`, without backslashes and control characters."""

WEB_LINK = r"^https?:/{2}[^\s\x00-\x1f\x7f-\x9f]+$"

_IS_TEXT: JsonValue = {"type": "string"}


class Artifact(Message):
    """A file that a trial left, or a link to one. It is named, never read, when the event is taken in."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={
            "oneOf": [{"required": [place], "properties": {place: _IS_TEXT}} for place in ("path", "url")]
        },
    )

    name: Key = Field(description="What it is, as `agent log`.")
    path: Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARACTERS, pattern=RELATIVE_PATH)] | None = (
        Field(default=None, description="Where it lies below the run's directory, without `..`.")
    )
    url: Annotated[str, StringConstraints(max_length=MAX_LINK_CHARACTERS, pattern=WEB_LINK)] | None = Field(
        default=None, description="Where it can be fetched, http or https."
    )
    media_type: ShortText | None = Field(default=None, description="As `text/plain`; null: not known.")

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if (self.path is None) == (self.url is None):
            raise PydanticCustomError(
                "one_place", "An artifact has either a `path` below the run's directory or a `url`, not both"
            )
        return self


Artifacts = Annotated[list[Artifact], Field(max_length=MAX_ARTIFACTS)]
