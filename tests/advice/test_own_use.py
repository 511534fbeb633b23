"""The errors of a promise beside the own use, and that no reading has a say in a promise."""

from __future__ import annotations

import inspect
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushmeter as hm
from hushmeter.advice.own_use import compare_promise, compare_with_use, describe_restoring
from hushmeter.advice.planner import FORMS
from hushmeter.releases.labels import VIEWS
from hushmeter.releases.purposes import PURPOSES, independent_errors
from hushmeter.releases.receipt import describe_promise
from tests.cli.test_commands import run

START = "2024-01-15T00:00Z"


def flat(watts: float, length: int = 48, interval_s: float = 3600.0) -> hm.Trace:
    return hm.Trace(np.full(length, watts), interval_s, START)


def test_the_command_gives_the_same_noise_for_every_file_of_one_day(tmp_path):
    day = hm.synth.trace(hm.synth.ready_home("evening"), 14_400, seed=1)
    scales = []
    for every in (6, 60, 900, 1800, 3600):
        coarse = day if every == 6 else day.coarsen(every)
        path = tmp_path / f"{every}.csv"
        hm.write_meter(path, hm.Trace(coarse.readings, coarse.interval_s, coarse.start))
        done = run("advise", path, "--hide", "kettle 2100 W 180 s", "--odds", 60, "--json")
        best = json.loads(done.stdout)["advice"]["options"][0]
        assert best["every_s"] == 3600
        scales.append(best["scale"])
    assert scales == pytest.approx([210] * 5, rel=0.01)


def compare(request, trace):
    facts = hm.metered(trace)
    return compare_promise(request, request.resolve(facts), facts, trace)


def test_the_cost_is_set_beside_the_own_use():
    request = hm.Request(hide="kettle", odds=60)
    error = request.resolve(hm.Metered(3600.0)).errors.hour_w
    quiet = compare(request, flat(900.0))
    assert quiet == (f"Each hour is off by about {error:.0f} W; your mean is 900 W.",)
    loud = compare(request, flat(200.0))
    assert loud[1].startswith("WARNING: the noise is 2.3 times your own use.")
    assert [line.split(".")[0] for line in loud[2:]] == [
        "What helps: --for day", "What helps: --for month",
    ]  # fmt: skip
    hopeless = compare(hm.Request(hide="car charger", odds=60), flat(200.0))
    assert hopeless[-1].startswith("Longer periods do not help enough")


def test_an_epsilon_of_your_own_is_compared_with_the_own_use_too():
    home = hm.synth.ready_home("evening")
    request = hm.Request(epsilon=1, home=home)
    sentences = compare(request, flat(924.0))
    assert sentences[0] == "Each hour is off by about 10.2 kW; your mean is 924 W."
    assert sentences[1].startswith("WARNING: the noise is 11 times your own use.")
    assert sentences[2].startswith("What helps: longer means")


def test_tables_are_compared_for_their_purpose():
    request = hm.Request(hide="kettle", odds=60, tables=VIEWS, purpose="month")
    (sentence,) = compare(request, flat(900.0))
    assert sentence.startswith("Each month is off by about")


def test_fine_readings_are_compared_themselves_too():
    home = hm.synth.ready_home("evening")
    unit = hm.resolve_unit(interval_s=6.0, home=home)
    errors = independent_errors(hm.calibrate("laplace", 1, unit).std, 6.0)
    sentence = compare_with_use(errors, flat(924.0, interval_s=6.0)).sentence
    assert sentence.startswith("Each released value (6 s) is off by about 10.2 kW. Each hour")
    assert compare_with_use(errors, flat(0.0)).too_noisy


@pytest.mark.parametrize("tables", [(), VIEWS])
def test_a_simulation_shows_what_restoring_would_help(tables):
    trace = hm.synth.trace(hm.synth.ready_home("evening"), 14_400 * 4, seed=1).coarsen("1h")
    promise = hm.Request(hide="kettle", tables=tables).resolve(hm.metered(trace))
    (sentence,) = describe_restoring(promise, trace)
    assert sentence.endswith("(this comparison is private).")
    daily = hm.Request(hide="kettle", every="1d", purpose="day").resolve(hm.metered(trace))
    assert describe_restoring(daily, trace) == ()


def test_a_promise_takes_no_readings():
    names = set(inspect.signature(hm.Request.resolve).parameters)
    assert names == {"self", "metered"}
    assert not {"trace", "values"} & set(inspect.signature(hm.Request).parameters)
    assert not hm.metered(flat(300.0)).times.readings.any()


READINGS = st.lists(st.integers(-500, 20_000), min_size=48, max_size=48)
WISHES = st.sampled_from(["kettle", "tv, fridge", "kettle 2100 W 180 s"])


def calibration(receipt: dict) -> dict:
    """Every number of a public receipt, except for the digests of the released values."""
    receipt.get("output", {}).pop("sha256", None)
    return {key: receipt[key] for key in receipt if key not in ("private", "files", "warnings")}


@settings(max_examples=15, deadline=None)
@given(READINGS, READINGS, WISHES, st.sampled_from(list(PURPOSES)), st.sampled_from(FORMS))
def test_readings_never_calibrate_a_release_of_the_library(first, second, wish, purpose, form):
    receipts = []
    for readings in (first, second):
        trace = hm.Trace(readings, 3600.0, START)
        tables = VIEWS if form == "calendar" else ()
        request = hm.Request(hide=wish, odds=60, purpose=purpose, tables=tables)
        promise = request.resolve(hm.metered(trace))
        assert promise.odds <= 0.6
        done = promise.release(trace)
        assert describe_promise(done.promise)["odds"] == promise.odds
        receipts.append(calibration(done.receipt.to_dict()))
    assert receipts[0] == receipts[1]


@settings(max_examples=3, deadline=None)
@given(READINGS, READINGS, WISHES)
def test_readings_never_calibrate_a_release_of_the_command(tmp_path_factory, first, second, wish):
    folder = tmp_path_factory.mktemp("wish")
    receipts, advice = [], []
    for name, readings in (("a", first), ("b", second)):
        path = folder / f"{name}.csv"
        # One decimal in every value: the number of decimals of a file is public.
        rows = [f"2024-01-{15 + i // 24}T{i % 24:02}:00Z,{w}.0" for i, w in enumerate(readings)]
        path.write_text("timestamp,watts\n" + "\n".join(rows) + "\n")
        for out, more in ((f"{name}.out.csv", ()), (f"{name}.views", ("--views",))):
            done = run("release", path, "--hide", wish, *more, "-o", folder / out, "--json")
            receipts.append(calibration(json.loads(done.stdout)))
        for more in (("--for", "register"), ("--max-hourly-error", 50)):
            found = json.loads(run("advise", path, "--hide", wish, *more, "--json").stdout)
            advice.append((found["advice"], found["within_the_error"], found["notes"]))
    assert receipts[:2] == receipts[2:]
    assert advice[:2] == advice[2:]


def test_the_public_receipt_has_no_names_and_no_own_use(tmp_path):
    trace = flat(317.0)
    hm.write_meter(tmp_path / "meter.csv", trace)
    out = tmp_path / "out.csv"
    done = run("release", tmp_path / "meter.csv", "--hide", "kettle", "-o", out)
    assert "your mean is 317 W" in done.stdout
    assert "WARNING" in done.stdout
    receipt = (tmp_path / "out.csv.receipt.json").read_text()
    for word in ("kettle", "own_use", "mean"):
        assert word not in receipt + out.read_text()
    # A hash may contain these digits, but the receipt has no such number.
    assert re.search(r"\b317\b", receipt) is None
    unit = json.loads((tmp_path / "out.csv.receipt.json").read_text())["unit"]
    assert (unit["changes"][0]["watts"], unit["changes"][0]["watt_hours"]) == (3100.0, 235.0)
    private = json.loads((tmp_path / "out.csv.private.json").read_text())
    assert "your mean is 317 W" in private["own_use"][0]
    again = run("release", tmp_path / "meter.csv", "--hide", "kettle", "-o", tmp_path / "two.csv")
    assert "each further release of these readings adds its ε" in again.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "say what to hide, such as --hide kettle"),
        (["--hide", "kettle", "-e", 1], "leave out -e"),
        (["--hide", "kettle", "--clamp", "0,9", "--grid", 2], "leave out --clamp, --grid"),
        (["--hide", "kettle", "--hourly-cost", 2], "--hourly-cost is about a calendar release"),
        (["--hide", "kettle", "--use", "30min"], "use is a time a day: it needs span 'day'"),
        (["-e", 1, "--have", "kettle", "--odds", 60], "--odds needs --hide"),
        (["--hide", "ketle"], "did you mean 'kettle'"),
        (["--hide", "kettle", "--odds", 50], "nothing was released: There is no release"),
        (
            ["--hide", "kettle", "--for", "week"],
            "purpose must be one of hour, day, month, profile, register",
        ),
    ],
)
def test_contradictions_are_refused_in_one_sentence(tmp_path, options, message):
    hm.write_meter(tmp_path / "meter.csv", flat(300.0))
    out = tmp_path / "out.csv"
    done = run("release", tmp_path / "meter.csv", *options, "-o", out, expect=2)
    assert message in done.stderr
    assert not out.exists()


def test_a_release_with_an_epsilon_is_compared_with_the_own_use_too(tmp_path):
    hm.write_meter(tmp_path / "meter.csv", flat(924.0))
    done = run(
        "release", tmp_path / "meter.csv", "--home", "evening", "-e", 1, "-o", tmp_path / "o.csv"
    )
    assert "Each hour is off by about 10.2 kW; your mean is 924 W." in done.stdout
    assert "WARNING: the noise is 11 times your own use." in done.stdout
    assert "What helps:" in done.stdout
