"""Columns never take more room than there is, and the important ones stay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamer.terminal.boards import BoardColumn, Sort, fit, gap_of, next_sort, ordered

columns = st.lists(
    st.builds(
        lambda rank, least: (rank, least),
        st.integers(0, 12),
        st.sampled_from([0, 0, 4, 16]),
    ),
    min_size=1,
    max_size=12,
).map(
    lambda found: [
        BoardColumn(str(n), "head", str, rank, least=least) for n, (rank, least) in enumerate(found)
    ]
)
widths = st.lists(st.integers(1, 60), min_size=12, max_size=12)


def table(*wanted: tuple[str, int, int]) -> list[BoardColumn[int]]:
    """(key, rank, least) as columns."""
    return [BoardColumn(key, key, str, rank, least=least) for key, rank, least in wanted]


@given(columns, widths, st.integers(1, 200))
def test_what_was_chosen_fits(columns: list[BoardColumn[int]], widths: list[int], width: int) -> None:
    widest = {column.key: widths[number] for number, column in enumerate(columns)}
    fitted = fit(columns, widest, width)
    assert fitted
    assert sum(one.width for one in fitted) + gap_of(width) * (len(fitted) - 1) <= width
    assert all(one.width <= widest[one.key] for one in fitted)
    assert [one.key for one in fitted] == [c.key for c in columns if c.key in {one.key for one in fitted}]


def test_the_less_important_column_goes_first_and_the_sorted_one_stays() -> None:
    columns = table(("name", 0, 8), ("cost", 1, 0), ("extra", 2, 0))
    widest = {"name": 30, "cost": 8, "extra": 8}
    assert [one.key for one in fit(columns, widest, 20)] == ["name", "cost"]
    assert [one.key for one in fit(columns, widest, 20, frozenset(["extra"]))] == ["name", "extra"]


def test_a_dispensable_column_gets_only_what_names_leave_and_very_long_names_leave_something() -> None:
    columns = table(("name", 0, 8), ("cost", 1, 0), ("extra", 12, 0))
    assert [one.key for one in fit(columns, {"name": 30, "cost": 8, "extra": 8}, 45)] == ["name", "cost"]
    assert [one.key for one in fit(columns, {"name": 30, "cost": 8, "extra": 8}, 48)] == [
        "name",
        "cost",
        "extra",
    ]
    assert [one.width for one in fit(columns, {"name": 512, "cost": 8, "extra": 8}, 90)] == [72, 8, 8]


def test_a_name_gets_the_room_that_is_left_and_no_more_than_it_needs() -> None:
    columns = table(("name", 0, 8), ("cost", 1, 0))
    assert [one.width for one in fit(columns, {"name": 30, "cost": 8}, 30)] == [21, 8]
    assert [one.width for one in fit(columns, {"name": 30, "cost": 8}, 90)] == [30, 8]


def test_unknown_values_come_last_in_both_directions_and_baselines_after_them() -> None:
    column = BoardColumn("value", "value", str, 0, value=lambda row: row[1])
    rows = [("a", 1.0), ("nop", 9.0), ("b", None), ("c", 3.0)]
    for descending, order in ((True, "c a b nop"), (False, "a c b nop")):
        found = ordered(rows, [column], Sort("value", descending), lambda row: row[0] == "nop")
        assert " ".join(name for name, _ in found) == order


def test_sorting_goes_round_all_columns_that_can_be_sorted_by() -> None:
    columns = [
        BoardColumn("a", "a", str, 0, value=str, descending=False),
        BoardColumn("b", "b", str, 0),
        BoardColumn("c", "c", str, 0, value=str),
    ]
    assert next_sort(columns, Sort("a", True)) == Sort("c", True)
    assert next_sort(columns, Sort("c", True)) == Sort("a", False)
    assert next_sort(columns, Sort("gone", True)) == Sort("a", False)
    assert next_sort(columns[1:2], Sort("gone", True)) == Sort("gone", True)
