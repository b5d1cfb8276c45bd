"""The price table in a file: what is wrong with it is said with the name of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamer.folding.score.prices import PriceTableError, price_table


@pytest.mark.parametrize("content", [b"x = ]", b"[other]", b'x = "\xff"'])
def test_a_file_that_is_no_price_table_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "prices.toml"
    file.write_bytes(content)
    with pytest.raises(PriceTableError, match=r"prices\.toml"):
        price_table(file)
