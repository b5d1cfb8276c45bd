"""Make runs.tar.gz again: reports that swebench's own functions wrote, from scripted logs of its containers.

Needs `pip install swebench==5.0.2`, which the tests do without. Run it in an empty directory:
`python record.py` leaves runs.tar.gz there, and runs-VERSION.tar.gz with another version, from 4.1.0 on.
What a container prints is scripted in `LOGS`. The grading (`run_instance`, which calls `get_eval_report`) and
the report of the run (`make_run_report`) are swebench's. Paths of the machine are replaced.
"""
# mypy: ignore-errors

from __future__ import annotations

import io
import tarfile
from importlib.metadata import version
from pathlib import Path

from swebench.harness.constants import APPLY_PATCH_FAIL, END_TEST_OUTPUT, START_TEST_OUTPUT, TESTS_TIMEOUT
from swebench.harness.reporting import make_run_report
from swebench.harness.run_evaluation import run_instance

IS_OLD = version("swebench").startswith("4.")
if IS_OLD:
    from swebench.harness import grading
    from swebench.harness.log_parsers.python import parse_log_pytest
    from swebench.harness.test_spec.test_spec import TestSpec
else:
    from swebench.harness.run_evaluation import write_run_metadata
    from swebench.types import TestSpec

HERE = Path.cwd().resolve()
MODEL, RUN, DATASET = "acme/solver-1.5", "nightly", "SWE-bench/SWE-bench_Verified"
FAIL_TO_PASS = ["tests/test_io.py::test_read", "tests/test_io.py::test_write"]
PASS_TO_PASS = ["tests/test_io.py::test_open", "tests/test_io.py::test_close"]


def a_log(*failed):
    lines = [f"{'FAILED' if test in failed else 'PASSED'} {test}" for test in FAIL_TO_PASS + PASS_TO_PASS]
    return "\n".join([START_TEST_OUTPUT, *lines, END_TEST_OUTPUT]) + "\n"


LOGS = {
    "astropy__astropy-1": a_log(),
    "astropy__astropy-2": a_log(),
    "django__django-1": a_log(FAIL_TO_PASS[1]),
    "django__django-2": a_log(*FAIL_TO_PASS),
    "django__django-3": a_log(PASS_TO_PASS[0]),
    "sympy__sympy-1": f"{START_TEST_OUTPUT}\ncurl: (6) Could not resolve host: mirror.example.org\n",
    "sympy__sympy-2": f"{START_TEST_OUTPUT}\nTimeout error: 1800 seconds exceeded.\n{TESTS_TIMEOUT}\n",
}
"""Instance to what its tests printed."""

ERRORS = {
    "flask__flask-1": f"swebench.harness.utils.EvaluationError: flask__flask-1: {APPLY_PATCH_FAIL}:\n"
    "error: patch failed: src/app.py:3\n",
    "flask__flask-2": "docker.errors.APIError: 500 Server Error\n",
}
"""Instance to the end of the harness's log, where it wrote no report."""

EMPTY, UNSUBMITTED = ["requests__requests-1", "requests__requests-2"], ["pylint__pylint-1"]


def an_old_spec(instance):
    repo = instance.partition("__")[0]
    grading.MAP_REPO_TO_PARSER[repo] = parse_log_pytest
    grading.MAP_REPO_VERSION_TO_SPECS[repo] = {"1": {"test_cmd": "pytest"}}
    return TestSpec(instance, repo, "1", [], [], [], "x86_64", FAIL_TO_PASS, PASS_TO_PASS, "py", {}, None)


def a_spec(instance):
    return TestSpec(
        instance_id=instance,
        image="none",
        eval_script_list=[],
        repo=instance.partition("__")[0],
        version="1",
        FAIL_TO_PASS=FAIL_TO_PASS,
        PASS_TO_PASS=PASS_TO_PASS,
        log_parser="parse_log_pytest",
        eval_type="pass_and_fail",
    )


def a_prediction(instance, patch):
    return {"instance_id": instance, "model_name_or_path": MODEL, "model_patch": patch}


def evaluated(model, logs, run):
    """Grade each instance as swebench does when it writes reports again from logs."""
    home = Path("logs/run_evaluation", run, model.replace("/", "__"))
    for instance, log in logs.items():
        (home / instance).mkdir(parents=True)
        (home / instance / "patch.diff").write_text("--- a/x\n+++ b/x\n")
        (home / instance / "run_instance.log").write_text(f"Grading answer for {instance}...\n")
        (home / instance / "test_output.txt").write_text(log)
        prediction = {**a_prediction(instance, "--- a/x\n"), "model_name_or_path": model}
        if IS_OLD:
            run_instance(an_old_spec(instance), prediction, False, False, None, run, 60, rewrite_reports=True)
        else:
            run_instance(a_spec(instance), prediction, None, run, 60, rewrite_reports=True)
    return home


def pack():
    installed = version("swebench")
    name = "runs.tar.gz" if installed == "5.0.2" else f"runs-{installed}.tar.gz"
    with tarfile.open(name, "w:gz") as archive:
        files = [*Path("logs").rglob("*"), *Path().glob("*.json")]
        for path in sorted(file for file in files if file.is_file()):
            info = archive.gettarinfo(path)
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            content = path.read_text().replace(str(HERE), "/bench").encode()
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def main():
    if not IS_OLD:
        write_run_metadata(RUN, DATASET, "test", None)
    home = evaluated(MODEL, LOGS, RUN)
    for instance, end in ERRORS.items():
        (home / instance).mkdir()
        (home / instance / "patch.diff").write_text("--- a/x\n+++ b/x\n")
        log = f"Container for {instance} started\nTraceback (most recent call last):\n{end}"
        (home / instance / "run_instance.log").write_text(log)
    predictions = {
        **{i: a_prediction(i, "--- a/x\n") for i in (*LOGS, *ERRORS)},
        **{i: a_prediction(i, "") for i in EMPTY},
    }
    dataset = [{"instance_id": i} for i in (*LOGS, *ERRORS, *EMPTY, *UNSUBMITTED)]
    make_run_report(predictions, dataset, RUN)
    other = {instance: LOGS[instance] for instance in ("astropy__astropy-1", "django__django-1")}
    evaluated("acme__other", other, RUN)  # still running: no report of the run yet
    pack()


if __name__ == "__main__":
    main()
