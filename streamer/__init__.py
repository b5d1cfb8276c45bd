"""Live, exact, replayable results for LLM-agent benchmarks."""

DISTRIBUTION = "trialstream"
"""What pip calls the product."""


def product_version() -> str:
    """The version of the installed product, such as `1.4.0`."""
    from importlib.metadata import version  # takes 20 ms, and most commands do without

    return version(DISTRIBUTION)
