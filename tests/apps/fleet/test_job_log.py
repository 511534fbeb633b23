"""What a job leaves for its operators: lines of JSON, metrics, and an exit code."""

from __future__ import annotations

import json
import math
import re

import pytest
import typer
from tests.apps.fleet.cases import new_ledger, readings, write
from tests.cli.test_commands import run

from hushmeter.apps.fleet.job_log import (
    JobLog,
    exit_code_of,
    logged_job,
    number_names,
    without_names,
)
from hushmeter.errors import BudgetError, DataError, InputError, MissingExtraError

HELP = re.compile(r"# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) ([^\\\n]+)")
TYPE = re.compile(r"# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram|summary|untyped)")
SAMPLE = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]*)"
    r"\{((?:[a-zA-Z_][a-zA-Z0-9_]*=\"(?:[^\"\\\n]|\\[\"\\n])*\",?)*)\} "
    r"([+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|Inf|NaN))"
)


def parse_prometheus(text):
    """A strict reader of the text format: help, type and samples of each metric together, once."""
    assert text.endswith("\n")
    assert "\r" not in text
    metrics, name, seen = {}, None, set()
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("# HELP"):
            name = HELP.fullmatch(line)[1]
            assert name not in seen
            seen.add(name)
            assert TYPE.fullmatch(next(lines))[1] == name
            metrics[name] = {}
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample is not None, line
        assert sample[1] == name
        labels = tuple(re.findall(r"(\w+)=\"([^\"]*)\"", sample[2]))
        assert len(dict(labels)) == len(labels)
        assert labels not in metrics[name]
        metrics[name][labels] = float(sample[3])
    assert all(metrics.values())
    return metrics


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    run("synth-fleet", "--meters", 7, "--days", 1, "--interval", 3600, "--files", 2, "-o",
        folder / "in")  # fmt: skip
    return folder / "in"


def release(fleet, out, ledger, *more, expect=0):
    basic = ("-e", 1, "--clamp", "0,15000", "--ledger", ledger, "-o", out)
    return run("fleet", fleet, *basic, "--log-format", "json", *more, expect=expect)


def test_a_job_in_lines_of_json_and_in_metrics(fleet, tmp_path):
    ledger, prom = new_ledger(tmp_path), tmp_path / "job.prom"
    done = release(fleet, tmp_path / "out", ledger, "--metrics", prom)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["started", "file", "file", "result", "finished"]
    assert all({"time", "level", "command", "seconds"} <= line.keys() for line in lines)
    seconds = [line["seconds"] for line in lines]
    assert seconds == sorted(seconds)
    result = lines[-2]
    assert (result["released_files"], result["left_out_files"]) == (2, 0)
    assert (result["released_readings"], result["left_out_readings"]) == (168, 0)
    assert (result["released_periods"], result["epsilon"]) == (7, 26.0)
    assert lines[-1]["exit_code"] == 0
    assert "M0000" not in done.stderr
    assert "part-" not in done.stderr
    found = parse_prometheus(prom.read_text())
    command = ("command", "fleet")
    assert found["hushmeter_job_exit_code"] == {(command,): 0.0}
    assert found["hushmeter_job_readings"] == {
        (command, ("state", "released")): 168.0,
        (command, ("state", "left_out")): 0.0,
    }
    assert found["hushmeter_job_charged_epsilon"] == {(command,): 26.0}
    start = found["hushmeter_job_start_time_seconds"][(command,)]
    assert start <= found["hushmeter_job_end_time_seconds"][(command,)]
    assert math.isfinite(found["hushmeter_job_duration_seconds"][(command,)])


def test_what_is_left_out_and_what_fails_end_with_their_codes(fleet, tmp_path):
    ledger, prom = new_ledger(tmp_path), tmp_path / "job.prom"
    release(fleet, tmp_path / "first", ledger)
    again = release(fleet, tmp_path / "again", ledger, "--metrics", prom, expect=1)
    last = json.loads(again.stderr.splitlines()[-1])
    assert (last["event"], last["level"], last["exit_code"]) == ("finished", "error", 1)
    found = parse_prometheus(prom.read_text())
    periods = found["hushmeter_job_periods"]
    assert periods[(("command", "fleet"), ("state", "left_out"))] == 7.0
    wrong = release(fleet, tmp_path / "x", ledger, "--mechanism", "none", "--metrics", prom,
                    expect=2)  # fmt: skip
    lines = [json.loads(line) for line in wrong.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["started", "finished"]
    assert lines[-1]["error"] == "InputError"
    assert parse_prometheus(prom.read_text())["hushmeter_job_exit_code"] == {
        (("command", "fleet"),): 2.0
    }
    missing = release(tmp_path / "M123", tmp_path / "y", ledger, expect=1)
    assert "M123" not in missing.stderr
    nowhere = release(fleet, tmp_path / "z", ledger, "--metrics", tmp_path / "no/x.prom", expect=2)
    assert "does not exist: make it first" in nowhere.stderr


def test_sums_are_logged_too(fleet, tmp_path):
    prom = tmp_path / "sums.prom"
    asked = ("-e", 1, "--clamp", "0,15000", "--ledger", new_ledger(tmp_path), "--accept-noise")
    done = run("fleet-sums", fleet, *asked, "-o", tmp_path / "out", "--log-format", "json",
               "--metrics", prom)  # fmt: skip
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in events] == ["started", "file", "file", "result", "finished"]
    assert events[3]["released_readings"] == 168
    found = parse_prometheus(prom.read_text())
    assert found["hushmeter_job_exit_code"] == {(("command", "fleet-sums"),): 0.0}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("a."), 2),
        (MissingExtraError("a", "page"), 2),
        (DataError("a."), 1),
        (BudgetError("a."), 1),
        (OSError("a"), 1),
        (KeyboardInterrupt(), 130),
        (typer.Exit(7), 7),
    ],
)
def test_every_error_has_its_exit_code(error, code, capsys):
    assert exit_code_of(error) == code
    with pytest.raises(BaseException) as raised, logged_job("fleet", "json", None):  # noqa: PT011
        raise error
    assert exit_code_of(raised.value) == code
    last = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert last["exit_code"] == code


@pytest.mark.parametrize(
    ("sentence", "logged"),
    [
        ("meter Smith cannot be charged.", "meter … cannot be charged."),
        ("M4711 has the value 230.5 W.", "… has the value … W."),
        ("the meter 'Miller' has spent “all of it”.", "the meter … has spent …."),
        ("the ledger is busy: try again.", "the ledger is busy: try again."),
    ],
)
def test_a_logged_sentence_names_no_meter_and_no_reading(sentence, logged):
    assert without_names(sentence) == logged


def test_an_unknown_format_is_refused():
    with pytest.raises(InputError, match="log-format must be text or json, got 'xml'"):
        JobLog("fleet", "xml")


def test_the_log_names_a_file_by_its_number(tmp_path):
    """The names of files may be those of customers, also without digits or quotes."""
    columns = readings()
    for name in ("Anna Meyer, Hill Road", "Zoe Jones"):
        words = columns | {"value": [float("nan")] * 96, "meter": [name] * 96}
        write(tmp_path / f"in/{name}.parquet", columns if name < "B" else words)
    url = new_ledger(tmp_path)
    done = run(
        "fleet", tmp_path / "in", "-e", 1, "--clamp", "0,12000", "--ledger", url, "-o",
        tmp_path / "out", "--log-format", "json", "--metrics", tmp_path / "job.prom", expect=1,
    )  # fmt: skip
    logs = done.stderr + (tmp_path / "job.prom").read_text()
    for word in ("Anna", "Meyer", "Hill", "Zoe", "Jones", str(tmp_path)):
        assert word not in logs
    assert "file 2 has" in logs


def test_names_are_numbered_longest_first():
    names = ("a.csv", "a.csv.gz", "b c.csv")
    assert (
        number_names("b c.csv and a.csv.gz: meter 7 at 3 W", names)
        == "file 3 and file 2 meter … at … W"
    )
