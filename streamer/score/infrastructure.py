"""Which failures are the infrastructure's: the container, the network or the model's provider, not the agent.

Such a trial counts as a failure like any other (R19). Summaries give a second accuracy without it. The
plan of a run replaces this table by `run_started.infrastructure_failures`.
"""

from __future__ import annotations

from collections.abc import Collection

INFRASTRUCTURE_ERROR = "infrastructure_error"
"""The failure mode for a harness of one's own; it counts as the infrastructure's whatever the harness."""

_TERMINAL_BENCH = {
    "unknown_agent_error": "An exception reached the harness: container, terminal, network or the model's "
    "API. A crash of the agent's own code has the same name.",
    "agent_installation_failed": "The agent could not be installed in the container.",
}

INFRASTRUCTURE_FAILURES: dict[str, dict[str, str]] = {
    "terminal-bench": _TERMINAL_BENCH,
    "fc-eval": _TERMINAL_BENCH,
    "harbor": {
        "AddTestsDirError": "The tests could not be copied into the environment.",
        "AgentAuthenticationError": "The provider refused the credentials.",
        "AgentSetupTimeoutError": "The agent could not be set up in time.",
        "ApiConnectionClosedError": "The provider closed the connection.",
        "ApiConnectionError": "The provider could not be reached.",
        "ApiInternalServerError": "The provider failed.",
        "ApiOverloadedError": "The provider was overloaded.",
        "ApiRateLimitError": "The provider's rate limit was reached.",
        "ApiResponseStalledError": "The provider stopped answering.",
        "ApiUsageLimitError": "The account's quota was used up.",
        "DownloadVerifierDirError": "The verifier's files could not be fetched from the environment.",
        "EnvironmentStartTimeoutError": "The environment did not start in time.",
        "HealthcheckError": "The environment was not healthy.",
        "NetworkConnectionError": "The network failed.",
        "SandboxBuildFailedError": "The environment could not be built.",
    },
    "inspect": {"CancelledError": "The eval was stopped before the sample had ended."},
    "swe-bench": {
        "infra_failure": "The harness found signs of a broken environment: memory, network, Docker, display.",
    },
}
"""Harness to its failure modes that are the infrastructure's, and what each means."""


def is_infrastructure_failure(
    harness: str | None, failure_mode: str | None, named: Collection[str] | None
) -> bool:
    """Whether a failure mode is the infrastructure's.

    Args:
        harness: which harness wrote the result; None: not known.
        failure_mode: as the harness says; None: there is none.
        named: failure modes that the plan names in place of the table; None: it names none.

    >>> is_infrastructure_failure("terminal-bench", "unknown_agent_error", None)
    True
    >>> is_infrastructure_failure("terminal-bench", "agent_timeout", None)
    False
    >>> is_infrastructure_failure("terminal-bench", "agent_timeout", {"agent_timeout"})
    True
    """
    if failure_mode is None:
        return False
    if named is not None:
        return failure_mode in named
    return failure_mode == INFRASTRUCTURE_ERROR or failure_mode in INFRASTRUCTURE_FAILURES.get(
        harness or "", ()
    )
