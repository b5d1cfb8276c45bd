"""`streamer runs set`: names and labels."""

from __future__ import annotations

from tests.cli.calling import SECONDS, a_run, call, published, the_run
from tests.support.events import a_plan
from tests.support.online import Online
from tests.support.worker_process import wait_for


def test_a_run_is_named_and_labelled_field_by_field(stack: Online) -> None:
    published(
        stack, [*a_run("named"), a_plan(run_id="named", benchmark="b", display_name="old", labels={"a": "1"})]
    )
    assert call(stack, "runs", "set", "named", "--name", "New name").returncode == 0
    assert call(stack, "runs", "set", "named", "--label", "b=2", "--label", "c=3=4").returncode == 0
    wait_for(
        lambda: the_run(stack, "named").get("labels") == {"a": "1", "b": "2", "c": "3=4"}, "labels", SECONDS
    )
    run = the_run(stack, "named")
    assert (run["display_name"], run["benchmark"]) == ("New name", "b")
    assert call(stack, "runs", "set", "named").returncode == 2
    assert call(stack, "runs", "set", "named", "--label", "novalue").returncode == 2
