"""Metrics of running runs for Prometheus: `/api/metrics` of `streamer serve`.

Each run and agent takes room in Prometheus, so both are limited, and those left out are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from streamer.client.queries import UnknownRun
from streamer.client.readers import AsyncStateReader
from streamer.schemas.events import BOARD_METRICS
from streamer.schemas.summaries import AgentModelSummary, RunSummary, state_of

METRICS_PATH = "/api/metrics"
MEDIA = "text/plain; version=0.0.4; charset=utf-8"

MOST_RUNS, MOST_AGENTS = 20, 20
"""The most running runs, latest first, and agents of each, those with most trials first."""

GOING_ON = ("running", "stalled")

RUN_LABELS, AGENT_LABELS = ["run", "benchmark"], ["run", "benchmark", "agent_model"]

SHOWN = ("accuracy", "pass_rate", "total_cost", "mean_cost", "mean_duration", "cost_of_pass")


class Results(Collector):
    """The metrics of these runs; an unknown number has no sample.

    `running` counts the shown runs and those left out. `agents_left_out` counts agents of the shown runs.
    """

    def __init__(
        self,
        runs: Sequence[tuple[RunSummary, str, Sequence[AgentModelSummary]]],
        running: int,
        agents_left_out: int = 0,
    ) -> None:
        self._runs, self._running, self._agents_left_out = runs, running, agents_left_out

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("streamer_runs_running", "Runs that go on.", self._running)
        left_out = self._running - len(self._runs)
        yield GaugeMetricFamily("streamer_runs_left_out", "Running runs without metrics.", left_out)
        yield GaugeMetricFamily(
            "streamer_agents_left_out", "Agents of shown runs without metrics.", self._agents_left_out
        )
        yield from self._of_runs()
        yield from self._of_agents()

    def _of_runs(self) -> Iterator[Metric]:
        done = GaugeMetricFamily("streamer_run_slots_done", "Results that are there.", labels=RUN_LABELS)
        planned = GaugeMetricFamily("streamer_run_slots_planned", "Results planned.", labels=RUN_LABELS)
        cost = GaugeMetricFamily("streamer_run_cost_usd", "Sum of the known costs.", labels=RUN_LABELS)
        failed = GaugeMetricFamily(
            "streamer_run_infrastructure_failures",
            "Trials that the infrastructure failed.",
            labels=RUN_LABELS,
        )
        stalled = GaugeMetricFamily("streamer_run_stalled", "1: silent for long.", labels=RUN_LABELS)
        for run, state, _ in self._runs:
            of = _labels(run)
            done.add_metric(of, run.progress.done)
            failed.add_metric(of, run.infrastructure_failures)
            stalled.add_metric(of, state == "stalled")
            if run.progress.planned is not None:
                planned.add_metric(of, run.progress.planned)
            if run.total_cost is not None:
                cost.add_metric(of, float(run.total_cost))
        yield from (done, planned, cost, failed, stalled)

    def _of_agents(self) -> Iterator[Metric]:
        trials = GaugeMetricFamily("streamer_agent_trials", "Trials.", labels=AGENT_LABELS)
        low = GaugeMetricFamily(
            "streamer_agent_pass_rate_low", "Lower end of its 95 % interval.", labels=AGENT_LABELS
        )
        high = GaugeMetricFamily("streamer_agent_pass_rate_high", "Upper end of it.", labels=AGENT_LABELS)
        shown = {
            name: GaugeMetricFamily(
                f"streamer_agent_{name}", BOARD_METRICS[name].description, labels=AGENT_LABELS
            )
            for name in SHOWN
        }
        for run, _, agents in self._runs:
            for agent in agents:
                of, fields = [*_labels(run), agent.agent_model], agent.model_dump(mode="json")
                trials.add_metric(of, agent.trials)
                rate = fields["statistics"]["pass_rate"]
                values = {name: BOARD_METRICS[name].value(fields) for name in SHOWN}
                for family, value in ((low, rate["low"]), (high, rate["high"]), *_pairs(shown, values)):
                    if value is not None:
                        family.add_metric(of, value)
        yield from (trials, low, high, *shown.values())


def _labels(run: RunSummary) -> list[str]:
    return [run.run_id, run.benchmark or ""]


def _pairs(
    families: dict[str, GaugeMetricFamily], values: dict[str, float | None]
) -> Iterable[tuple[GaugeMetricFamily, float | None]]:
    return ((families[name], values[name]) for name in families)


async def results(reader: AsyncStateReader, request: Request) -> Response:
    now = datetime.now(UTC)
    states = [(run, state_of(run, now)) for run in await reader.runs()]
    going_on = [(run, state) for run, state in states if state in GOING_ON]
    shown, left_out = list[tuple[RunSummary, str, Sequence[AgentModelSummary]]](), 0
    for run, state in going_on[:MOST_RUNS]:
        try:
            agents = await reader.agents(run.run_id)
        except UnknownRun:
            continue
        agents = sorted(agents, key=lambda agent: (-agent.trials, agent.agent_model))
        left_out += max(0, len(agents) - MOST_AGENTS)
        shown.append((run, state, agents[:MOST_AGENTS]))
    registry = CollectorRegistry()
    registry.register(Results(shown, len(going_on), left_out))
    return Response(generate_latest(registry), media_type=MEDIA, headers={"cache-control": "no-store"})
