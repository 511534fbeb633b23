"""Paying for a release: every day that it covers, for the change that the ledger protects."""

from __future__ import annotations

import itertools
import json
import random
import signal
from pathlib import Path

import numpy as np
import pytest
from tests.apps.fleet.cases import new_ledger
from tests.apps.fleet.test_crash import Jobs

import hushmeter as hm
from hushmeter.apps.ledger import Charge, DayChange, open_ledger
from hushmeter.apps.ledger.payment import bill_of, covered_days, finish_paid, price_of, save_paid
from hushmeter.errors import BudgetError, DataError, InputError
from hushmeter.files import write_table
from hushmeter.releases.files import paid_folder

KETTLE = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)


def hourly(days=3, start="2024-03-01T00:00Z", metering=None):
    readings = np.random.default_rng(0).gamma(1.0, 300.0, 24 * days).round(1)
    return hm.Trace(readings, 3600.0, start, metering=metering or hm.Metering())


def promise_of(trace, **request):
    given = {"epsilon": 1, "home": KETTLE, "clamp": (0, 5000), **request}
    return hm.Request(**given).resolve(hm.metered(trace))


@pytest.mark.parametrize("tables", [(), ("views",), ("days", "peak = 16:00-21:00")])
def test_every_day_is_paid_for_once(tmp_path, tables):
    url, trace = new_ledger(tmp_path), hourly()
    done = promise_of(trace, tables=tables).release(trace)
    with open_ledger(url) as ledger:
        bill = bill_of(done, ledger, meter="m")
        payment = bill.pay(ledger)
        assert payment.days == 3
        assert payment.price == price_of(done.promise, ledger.protects, ledger.composition_delta)
        assert bill.pay(ledger) == payment
        assert len(ledger.history("m")) == 3
        again = bill_of(promise_of(trace, tables=tables).release(trace), ledger, meter="m")
        with pytest.raises(BudgetError):
            again.pay(ledger)


def test_tables_cost_the_epsilon_of_a_day_in_all_of_them():
    promise = promise_of(hourly(), tables=("views", "peak = 16:00-21:00"))
    protects = DayChange(5000.0, 20_000.0)
    price = price_of(promise, protects)
    change = protects.on_unit(promise.unit, promise.clamp, on_whole_intervals=True)
    assert price.micro >= 1e6 * promise.compose(change).epsilon
    assert price.micro > 1e6 * promise.epsilon
    days = price_of(promise_of(hourly(), tables=("days",)), protects)
    assert days.micro > 1e6


def test_readings_without_a_clamp_have_no_price():
    with pytest.raises(InputError, match="does not clamp its readings"):
        price_of(promise_of(hourly(), clamp=None), DayChange.within(0.0, 5000.0))


def test_what_has_no_price_is_not_charged(tmp_path):
    url = new_ledger(tmp_path)
    rounded = hourly(metering=hm.Metering(resolution_w=0.1))
    done = promise_of(rounded, span="when", clamp=None, mechanism="gaussian").release(rounded)
    with pytest.raises(InputError, match="publishes the sums of the days"):
        save_paid(url, done, tmp_path / "out.csv", meter="m")
    seeded = promise_of(hourly()).release(hourly(), rng=1)
    with pytest.raises(InputError, match="a simulation spends no budget"):
        save_paid(url, seeded, tmp_path / "out.csv", meter="m")
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == []


def test_the_days_of_values_with_a_margin():
    values = hourly(2, "2024-03-01T01:00Z")
    assert covered_days(values) == ["2024-03-01", "2024-03-02", "2024-03-03"]
    assert covered_days(values, 2 * 3600.0)[0] == "2024-02-29"


@pytest.mark.parametrize("name", ["out.csv", "views"])
def test_what_cannot_be_written_costs_nothing(tmp_path, name):
    """The place is a file, or the release exists: nothing is charged, and the next try works."""
    url, trace = new_ledger(tmp_path), hourly()
    done = promise_of(trace, tables=() if name.endswith("csv") else ("views",)).release(trace)
    (tmp_path / "blocked").write_text("a file, not a folder")
    with pytest.raises(DataError, match="cannot be written"):
        save_paid(url, done, tmp_path / "blocked" / name, meter="m")
    with open_ledger(url) as ledger:
        assert ledger.history("m") == []
    files, payment = save_paid(url, done, tmp_path / name, meter="m")
    assert payment.days == 3
    assert all(file.exists() for file in files)
    assert hm.verify(tmp_path / name).passed
    with open_ledger(url) as ledger:
        (release,) = {row["release"] for row in ledger.history("m")}
        assert ledger.state_of(release, "m") == "released"
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith(".out")]
    assert left == []


def test_a_payment_that_is_refused_leaves_no_file(tmp_path):
    url, trace = new_ledger(tmp_path), hourly()
    done = promise_of(trace).release(trace)
    save_paid(url, done, tmp_path / "one.csv", meter="m")
    with pytest.raises(BudgetError):
        save_paid(url, done, tmp_path / "two.csv", meter="m")
    assert not [path for path in tmp_path.iterdir() if "two" in path.name]


@pytest.mark.parametrize(("meter", "sentence"), [("", "meter must be"), ("m", "by month")])
def test_what_a_ledger_can_never_take_leaves_nothing_to_finish(tmp_path, meter, sentence):
    """The next command with another name, or another ledger, must not wait for this one."""
    url, trace = new_ledger(tmp_path), hourly()
    with open_ledger(url) as ledger:
        charge = Charge("other", "load", {})
        ledger.spend(charge, micro=1, meters=["m"], periods=["2024-03"], digest="d", source="s")
    done = promise_of(trace).release(trace)
    with pytest.raises((InputError, DataError), match=sentence):
        save_paid(url, done, tmp_path / "two.csv", meter=meter)
    assert not [path for path in tmp_path.iterdir() if "two" in path.name]


@pytest.mark.parametrize("content", [None, "{", "[]", '{"release": "x"}', '{"terms": 5}'])
def test_a_damaged_bill_is_one_sentence(tmp_path, content):
    trace, place = hourly(), tmp_path / "out.csv"
    folder = paid_folder(place)
    folder.mkdir()
    if content is not None:
        (folder / "bill.json").write_text(content)
    given = {"meter": "m", "stream": "load", "force": False}
    with pytest.raises(DataError, match=r"bill\.json cannot be read: .*gives up what was paid"):
        finish_paid(new_ledger(tmp_path), promise_of(trace), trace, place, **given)
    assert folder.exists()


FEW_KILLS, KILLS = 8, 150
STEPS = (("save_paid", "finish_paid"), ("_pay_and_publish",), ("publish_staged",))
"""Functions within which a process is killed at a random call."""


@pytest.fixture(scope="module")
def jobs():
    running = Jobs()
    yield running
    running.close()


def paid_command(place, meter, name):
    """A release that pays in a new ledger, and the URL of the ledger."""
    url = new_ledger(place)
    command = ["release", str(meter), "-e", "1", "--sensitivity", "2000", "--clamp", "0,5000"]
    command += ["--ledger", url, "--ledger-meter", "m", "--json", "-o", str(place / name)]
    return command, url


@pytest.mark.parametrize("name", ["out.csv", "views"])
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("most", [FEW_KILLS, pytest.param(KILLS, marks=pytest.mark.slow)])
def test_killed_between_the_payment_and_the_name(jobs, tmp_path, name, force, most):
    """The same command again publishes what was paid for; nothing is lost or paid for twice."""
    trace, meter = hourly(), tmp_path / "meter.csv"
    write_table(meter, {"timestamp": trace.times, "watts": trace.readings})
    tables = () if name.endswith("csv") else ("views",)
    chance, calls, kills, unpublished = random.Random(name), {}, 0, 0
    for number in itertools.count():
        place = tmp_path / str(number)
        place.mkdir()
        output, (command, url) = place / name, paid_command(place, meter, name)
        if force:
            promise_of(trace, tables=tables).release(trace).save(output)
            command.append("--force")
        if number == 0:
            jobs.warm({"command": command})
            continue
        if len(calls) < len(STEPS):
            within = STEPS[len(calls)]
            status, calls[within] = jobs.run({"command": command, "count": True, "within": within})
            assert (status, calls[within] > 10) == (0, True)
            continue
        old, unfinished = contents_of(output), True
        while unfinished:
            within = chance.choice(STEPS)
            kill = {"within": within, "kill_at": chance.randrange(1, calls[within])}
            status, _ = jobs.run({"command": command, "count": True, **kill})
            assert status in (0, -signal.SIGKILL)
            kills += status != 0
            found, waiting = contents_of(output), (place / f".{name}.paid").exists()
            with open_ledger(url) as ledger:
                paid = len(ledger.history("m"))
                assert ledger.verify() == []
            assert paid in (0, 3)
            if found not in (old, {}):
                assert paid == 3
                assert hm.verify(output).passed
            unpublished += bool(paid and waiting and found in (old, {}))
            unfinished = waiting or found in (old, {})
        with open_ledger(url) as ledger:
            (release,) = {row["release"] for row in ledger.history("m")}
            assert ledger.state_of(release, "m") == "released"
        # What a killed process could not remove is removed before the next payment.
        left = {path.name for path in place.glob(".*")}
        assert left <= {f".{name}.lock", f".{name}.paid.draft"}
        if kills >= most:
            break
    # Some processes died after the payment and before the first name.
    assert unpublished > 0


def contents_of(output: Path):
    """The bytes of all files of a release that has its receipt; otherwise nothing."""
    receipt = output / "receipt.json" if output.is_dir() else Path(f"{output}.receipt.json")
    if not receipt.exists():
        return {}
    files = [*output.iterdir()] if output.is_dir() else [output, receipt]
    return {path.name: path.read_bytes() for path in files}


def test_an_unfinished_release_is_finished_with_the_same_options_only(tmp_path, monkeypatch):
    """The power fails after the payment. Other readings or options never get the paid files."""
    url, trace, output = new_ledger(tmp_path), hourly(), tmp_path / "out.csv"
    promise = promise_of(trace)

    def cut(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("hushmeter.apps.ledger.payment.publish_staged", cut)
        with pytest.raises(KeyboardInterrupt):
            save_paid(url, promise.release(trace), output, meter="m")
    sealed = (tmp_path / ".out.csv.paid" / "00-out.csv").read_bytes()
    assert (tmp_path / ".out.csv.paid").stat().st_mode & 0o077 == 0
    with pytest.raises(DataError, match="has an unfinished release that may be paid for"):
        promise.release(trace).save(output)
    account = {"meter": "m", "stream": "load", "force": False}
    other = hourly(days=2)
    for asked, readings, more in (
        (promise, other, {}),
        (promise_of(trace, epsilon=2), trace, {}),
        (promise, trace, {"meter": "n"}),
        (promise, trace, {"stream": "second"}),
    ):
        with pytest.raises(InputError, match="of other readings or with other options"):
            finish_paid(url, asked, readings, output, **account | more)
    with pytest.raises(DataError, match="does not contain its earlier entry"):
        finish_paid(new_ledger(tmp_path, "other"), promise, trace, output, **account)
    files, payment = finish_paid(url, promise, trace, output, **account)
    assert output.read_bytes() == sealed
    assert payment.days == 3
    assert [path.name for path in files] == [
        "out.csv", "out.csv.receipt.json", "out.csv.private.json",
    ]  # fmt: skip
    assert json.loads(files[-1].read_text())["receipt"]["epsilon"] == 1
    with open_ledger(url) as ledger:
        assert len(ledger.history("m")) == 3
    assert hm.verify(output).passed
