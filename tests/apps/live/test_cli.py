"""The commands `live` and `replay`, as a person runs them."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import date

import pytest
from typer.testing import CliRunner

import hushmeter as hm
from hushmeter.cli import app
from hushmeter.errors import DataError, InputError
from hushmeter.home import LearntFrom
from hushmeter.write import write_meter
from tests.apps.live.broker import Broker, Subscriber, needs_broker
from tests.apps.live.streams import make_trace
from tests.cli import changed

HUSHMETER = [sys.executable, "-m", "hushmeter"]
HIDE = ["--sensitivity", "2100", "-e", "1", "--span", "reading", "--step", "0"]


def replay(path, *words):
    done = subprocess.run([*HUSHMETER, "replay", str(path), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_replay_through_a_pipe_equals_the_simulated_release(tmp_path, monkeypatch):
    trace = make_trace(1, interval_s=600.0)
    longer = make_trace(1.02, interval_s=600.0)
    write_meter(tmp_path / "meter.csv", longer)
    monkeypatch.chdir(tmp_path)
    lines = CliRunner().invoke(app, ["replay", "meter.csv", "--speed", "max"]).stdout
    assert json.loads(lines.splitlines()[0]) == {
        "time": "2024-03-01T00:00:00Z",
        "watts": longer.readings[0],
        "simulation": True,
    }
    words = ["--payload", "json:watts", "--interval", "600s", *HIDE, "--seed", "3", "--to", "out"]
    done = CliRunner().invoke(app, ["live", "-", *words, "--json"], input=lines)
    assert done.exit_code == 0, done.exception
    assert done.stderr == ""
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    assert [m["kind"] for m in messages] == ["window"] * 24 + ["day"]
    assert all(m["simulation"] for m in messages)
    request = hm.Request(watts=2100.0, epsilon="1", span="reading", every="1h")
    seed = 3 + date(2024, 3, 1).toordinal()
    day = hm.Trace(longer.readings[: len(trace)], 600.0, longer.start)
    released = request.resolve(hm.metered(day)).release(day, rng=seed)
    assert [m["watts"] for m in messages[:24]] == released.trace.readings.tolist()


PEAK = ["--table", "peak = weekdays 16:00-21:00"]


@pytest.mark.parametrize(
    ("more", "tables"),
    [
        (["--views"], ["days", "months", "typical-day"]),
        (["--views", *PEAK], ["days", "months", "typical-day", "bands"]),
        (PEAK, ["bands"]),
    ],
)
def test_tables_of_two_days(tmp_path, monkeypatch, more, tables):
    write_meter(tmp_path / "meter.csv", make_trace(2.02, interval_s=600.0))
    monkeypatch.chdir(tmp_path)
    words = ["--interval", "600s", "--hide", "kettle", *more, "--to", "out", "--once"]
    done = CliRunner().invoke(app, ["live", "meter.csv", *words])
    assert done.exit_code == 0, done.exception
    said = " ".join(done.stdout.split())
    assert f"noise of their own: {', '.join(tables)}. ε is that of all tables together" in said
    assert done.stdout.count(" kWh ± ") == 2
    again = CliRunner().invoke(app, ["live", "meter.csv", *words])
    assert again.exit_code == 0
    assert " kWh ± " not in again.stdout
    watched = CliRunner().invoke(app, ["live", "--watch", "--json"])
    shown = json.loads(watched.stdout)
    assert [entry["table"] for entry in shown["terms"]["tables"]] == ["cells", *tables]
    summary = json.loads((tmp_path / "out" / "2024-03-01.summary.json").read_text())
    assert summary["receipt"]["epsilon"] == shown["terms"]["epsilon"]
    other = CliRunner().invoke(app, ["live", "meter.csv", *words[:4], "--to", "out", "--once"])
    assert "begun with other options" in str(other.exception)


@pytest.mark.parametrize(
    ("words", "sentence", "code"),
    [
        (["meter.csv", *HIDE, "--to", "x"], "meter.csv does not exist", 1),
        (["-", *HIDE], "name a source of readings and, with --to", 2),
        (["amqp://h/t", *HIDE, "--to", "x"], "a source begins with mqtt://", 2),
        (["-", *HIDE, "--to", "ftp://h"], "--to begins with mqtt://", 2),
        (["-", *HIDE, "--to", "x", "--unit", "kWh"], "an energy counter cannot be streamed", 2),
        (["-", *HIDE, "--to", "x", "--payload", "xml"], "there is no payload named 'xml'", 2),
        (["-", "--to", "x"], "say what to hide", 2),
        (["-", *changed(HIDE, ["--to", "x", "--span", "when"])], "--span", 2),
        (
            ["-", *HIDE, "--to", "x", "--views", "--mechanism", "laplace"],
            "leave out --mechanism laplace",
            2,
        ),
        (
            ["-", *HIDE, "--to", "x", "--hourly-cost", "1.2"],
            "needs several tables, such as --views",
            2,
        ),
        (["-", *HIDE, "--to", "x", "--views", "--every", "7min"], "divide a day", 2),
        (["-", *HIDE, "--to", "x", "--table", "year"], "leave out year and register", 2),
        (["-", *HIDE, "--to", "x", "--table", "peak = 25:00-26:00"], "impossible times", 2),
    ],
)
def test_wrong_usage_gets_one_sentence(tmp_path, words, sentence, code, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if "when" in words:
        words = list(changed(words, ["--use", "30min", "--step", "1"]))
        sentence = "cannot keep if a reading is lost"
    done = CliRunner().invoke(app, ["live", *words, "--changes", "no"])
    assert done.exception is not None
    assert sentence in str(done.exception)
    assert isinstance(done.exception, InputError) == (code == 2)


PORTALS = {
    "german.csv": "Datum;Zeit;Verbrauch (kWh)\n01.03.2024;00:15;0,125\n01.03.2024;00:30;0,12\n",
    "value.csv": "Consumption (kwh), Start, End\n0.1, 2024-03-01T00:00Z, 2024-03-01T00:30Z\n",
}


@pytest.mark.parametrize("name", PORTALS)
@pytest.mark.parametrize("more", [[], ["--changes", "no"], ["--once"]])
def test_a_file_of_a_portal_gets_one_clear_sentence(tmp_path, monkeypatch, name, more):
    """Whether the file ends or grows: nothing is begun, and the sentence names what reads it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(PORTALS[name])
    done = CliRunner().invoke(app, ["live", name, *HIDE, "--to", "shared", *more])
    assert isinstance(done.exception, DataError)
    assert "row 1 of its readings cannot be read" in str(done.exception)
    assert str(done.exception).endswith("`hushmeter release` reads the files of portals.")
    assert [path.name for path in tmp_path.iterdir()] == [name]


@needs_broker
@pytest.mark.slow
def test_a_reader_runs_both_commands_with_a_broker(tmp_path):
    broker = Broker(tmp_path)
    write_meter(tmp_path / "meter.csv", make_trace(1.01, interval_s=10.0))
    subscriber = Subscriber(broker, "hushmeter/#", "homeassistant/#")
    command = [
        *HUSHMETER, "live", f"{broker.url}/meter/power", "--payload", "json:watts",
        "--interval", "10s", "--hide", "kettle", "--simulation", "--clock", "readings",
        "--to", broker.url,
    ]  # fmt: skip
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        subscriber.wait_for("hushmeter/home/availability", 1)
        time.sleep(2)
        second = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert second.returncode == 1
        assert f"in use by process {process.pid}" in second.stderr
        said = replay(tmp_path / "meter.csv", "--speed", "max", "--to", f"{broker.url}/meter/power")
        assert said.startswith("8726 readings were sent to meter/power")
        subscriber.wait_for("hushmeter/home/day", 1)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "2024-03-01T23:00:00Z" in out
        assert len(subscriber.of("hushmeter/home/window")) == 24
        # A process that dies is offline by the last will.
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
        count = len(subscriber.of("hushmeter/home/availability"))
        subscriber.wait_for("hushmeter/home/availability", count + 1)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert subscriber.wait_for("hushmeter/home/availability", count + 2)[-1] == b"offline"
    finally:
        process.kill()
        process.wait()
        subscriber.close()
        broker.kill()


def test_a_home_learnt_from_the_file_needs_consent(tmp_path, monkeypatch):
    write_meter(tmp_path / "meter.csv", make_trace(1.02, interval_s=600.0))
    learnt = LearntFrom("0" * 64, "2024-03-01T20:00:00Z", "2024-03-05T00:00:00Z")
    kettle = hm.Appliance("kettle", 2100.0, run_s=180.0, source="learnt")
    hm.Home([kettle], learnt_from=learnt).save(tmp_path / "home.toml")
    monkeypatch.chdir(tmp_path)
    words = ["--interval", "600s", "--hide", "kettle", "--home", "home.toml", "--to", "out"]
    done = CliRunner().invoke(app, ["live", "meter.csv", *words, "--once"])
    assert isinstance(done.exception, InputError)
    assert "learnt from these readings" in str(done.exception)
    assert not (tmp_path / "out").exists()
    done = CliRunner().invoke(app, ["live", "meter.csv", *words, "--once", "--accept-learnt"])
    assert done.exit_code == 0, done.exception
    summary = json.loads((tmp_path / "out" / "2024-03-01.summary.json").read_text())
    assert "learnt from these readings" in summary["receipt"]["sources"]


@pytest.mark.parametrize("words", [(), ("--payload", "json:power")])
def test_what_follows_a_silence_is_asked_and_not_guessed(tmp_path, monkeypatch, words):
    """The first change after a silence may be that of a run, and would show the whole load."""
    monkeypatch.chdir(tmp_path)
    asked = ["live", "mqtt://127.0.0.1:1/m", "--changes", "yes", "--hide", "kettle", "--to", "out"]
    error = CliRunner().invoke(app, [*asked, *words]).exception
    assert isinstance(error, InputError)
    assert "--heartbeat 0s if at once" in str(error)
    assert not (tmp_path / "live.db").exists()
