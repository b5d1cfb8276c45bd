"""A price table that cannot be used says where, and what is allowed."""

from __future__ import annotations

import pytest

from streamer.folding.score.prices import PriceTable, PriceTableError
from tests.score.build import per_million


def test_an_empty_table_is_the_default_table() -> None:
    assert per_million(PriceTable.from_toml("").price("gpt-5")) == (1.25, 10)


FINE = "input = 1\noutput = 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[models.x]\ninput = = 1", "not valid TOML.*line 2.*mend the file"),
        ("[models.x]\ninput = 1e-99999999999999999999", "not valid TOML"),
        (f"[models.x]\ninput = {'9' * 5000}", "not valid TOML"),
        ("models = 3", "allowed: tables named"),
        ("[prices.x]\ninput = 1", "'prices' at the top; allowed: tables named"),
        ("[models]\nx = 3", r'models\."x"\] is 3; allowed: a table with input, output'),
        ("[models.x]\noutput = 1", r'models\."x"\] lacks input; add it'),
        ("[models.x]\ninput = 1", r'models\."x"\] lacks output; add it'),
        (
            "[models.x]\n" + FINE + "cached = 1",
            r'models\."x"\] has the unknown field \'cached\'; allowed: input',
        ),
        (
            "[models.x]\noutput = 1\ninput = -3",
            r'models\."x"\] input is -3; allowed: USD per 1 million tokens',
        ),
        ("[models.x]\noutput = 1\ninput = nan", r'models\."x"\] input is NaN; allowed'),
        ("[models.x]\noutput = 1\ninput = inf", r'models\."x"\] input is Infinity; allowed'),
        ("[models.x]\noutput = 1\ninput = true", r'models\."x"\] input is True; allowed'),
        ("[models.x]\noutput = 1\ninput = '3'", r"models\.\"x\"\] input is '3'; allowed"),
        ("[models.x]\noutput = 1\ninput = 1e-999999999", r'models\."x"\] input is 1E-999999999; allowed'),
        ("[models.x]\noutput = 1\ninput = 1e999999999", r'models\."x"\] input is 1E\+999999999; allowed'),
        ("[models.x]\n" + FINE + "cache_read = -1", r'models\."x"\] cache_read is -1; allowed'),
        ("[models.x]\n" + FINE + 'aliases = "y"', r"aliases is 'y'; allowed: a list"),
        ("[models.x]\n" + FINE + "aliases = [1]", r"aliases is \[1\]; allowed: a list"),
        ("[models.x]\n" + FINE + "source = 1", "source is 1; allowed: a text"),
        ("[models.x]\n" + FINE + "[models.'openai/x']\n" + FINE, "the name 'x' stands for both .* keep one"),
        ("[models.x]\n" + FINE + "aliases = ['x']", "the name 'x' stands for both"),
    ],
)
def test_a_table_that_cannot_be_used_says_where_and_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(PriceTableError, match=message):
        PriceTable.from_toml(text)


def test_an_error_in_a_table_is_a_value_error() -> None:
    assert issubclass(PriceTableError, ValueError)
