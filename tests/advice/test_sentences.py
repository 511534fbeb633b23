"""The cost of a promise beside the own use: what is printed, and that none of it is published."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.advice.sentences import compare_promise, compare_with_use, describe_restoring
from hushmeter.releases.purposes import expect_cost
from tests.cli.test_commands import run

START = "2024-01-15T00:00Z"
HOURS = hm.Metered(3600.0)


def flat(watts: float, length: int = 48, interval_s: float = 3600.0) -> hm.Trace:
    return hm.Trace(np.full(length, watts), interval_s, START)


def compare(trace: hm.Trace, **wish) -> tuple[str, ...]:
    request = hm.Request(**wish)
    return compare_promise(request, request.resolve(HOURS), HOURS, trace)


def test_the_cost_is_set_beside_the_own_use():
    error = hm.Request(hide="kettle").resolve(HOURS).errors.hour_w
    assert compare(flat(900.0), hide="kettle") == (
        f"Each hour is off by about {error:.0f} W; your mean is 900 W.",
    )
    noisy = compare(flat(200.0), hide="kettle")
    assert noisy[1].startswith("WARNING: the noise is 2.3 times your own use.")
    assert [line.split(".")[0] for line in noisy[2:]] == [
        "What helps: --for day", "What helps: --for month",
    ]  # fmt: skip
    hopeless = compare(flat(200.0), hide="car charger 22.5 kW")
    assert hopeless[-1].startswith("Longer periods do not help enough")


def test_what_helps_a_calendar_is_the_release_of_the_advised_command():
    days = hm.Request(hide="kettle", purpose="day").as_calendar(HOURS).resolve(HOURS)
    noisy = compare(flat(200.0), hide="kettle", tables=["views"])
    assert noisy[2] == (
        f"What helps: --for day. Each day is off by about {days.errors.day_kwh:.2g} kWh; your "
        "mean day is 4.8 kWh."
    )


def test_the_words_for_a_chosen_epsilon():
    kettle = hm.Home([hm.Appliance("kettle", 2000.0)])
    noisy = compare(flat(200.0), epsilon=1, home=kettle)
    assert noisy[1].startswith("WARNING: the noise is 14 times your own use.")
    assert noisy[2].startswith("What helps: longer means (such as --every 1d), a larger ε")
    assert len(compare(flat(9000.0), epsilon=1, home=kettle)) == 1


def test_fine_readings_are_compared_themselves_too():
    home = hm.synth.ready_home("evening")
    errors = hm.Request(epsilon=1, home=home).resolve(hm.Metered(6.0)).errors
    sentence = compare_with_use(errors, flat(924.0, interval_s=6.0)).sentence
    assert sentence.startswith("Each released value (6 s) is off by about 10.2 kW. Each hour")
    assert compare_with_use(errors, flat(0.0)).too_noisy


@pytest.mark.parametrize("tables", [(), ("views",)])
def test_restoring_is_tried_on_a_simulated_release(tables):
    request = hm.Request(hide="kettle", tables=tables)
    promise = request.resolve(HOURS)
    (sentence,) = describe_restoring(promise, flat(300.0))
    (error,) = re.findall(r"were off by about ([\d.]+) W", sentence)
    assert float(error) < promise.errors.hour_w
    assert sentence.endswith("(for you alone).")
    assert not describe_restoring(request.with_changes(every="1d").resolve(HOURS), flat(300.0))
    assert not describe_restoring(request.resolve(HOURS), flat(300.0, interval_s=1800.0))


def test_moved_runs_are_not_restored():
    moved = hm.Request(hide="kettle", span="when").resolve(HOURS)
    assert describe_restoring(moved, flat(300.0)) == ()


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
    (change,) = json.loads(receipt)["unit"]["changes"]
    assert (change["watts"], change["watt_hours"]) == (3100.0, 235.0)
    private = json.loads((tmp_path / "out.csv.private.json").read_text())
    assert "your mean is 317 W" in private["own_use"][0]
    again = run("release", tmp_path / "meter.csv", "--hide", "kettle", "-o", tmp_path / "two.csv")
    assert "each further release of these readings adds its ε" in again.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "say what to hide, such as --hide kettle"),
        (["--hide", "kettle", "-e", 1], "leave out --epsilon"),
        (["--hide", "kettle", "--grid", 2], "leave out --grid"),
        (["--hide", "kettle", "--hourly-cost", 2], "--hourly-cost needs several tables"),
        (["--hide", "kettle", "--use", "30min"], "use is a time a day: it needs span 'day'"),
        (["-e", 1, "--have", "kettle", "--odds", 60], "--odds and --for need --hide"),
        (["--hide", "ketle"], "did you mean 'kettle'"),
        (["--hide", "kettle", "--odds", 50], "no release keeps the odds at 50 out of 100"),
        (
            ["--hide", "kettle", "--for", "week"],
            "must be one of hour, day, month, profile, register",
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


HOME = hm.Home([hm.Appliance("kettle", 2000.0, run_s=180.0)], tolerance=20.0)


def test_a_score_in_odds():
    truth = np.array([[1], [0], [0], [0], [0], [0], [0], [0]], bool)
    assert hm.explain(hm.score(truth, truth, names=["kettle"])) == (
        "The attacker is right about the kettle in 100 out of 100 moments; "
        "a guess without your data is right in 87.5.",
    )


def test_a_receipt_names_its_unit():
    trace = hm.Trace(np.full(50, 100.0), 6.0)
    unit = hm.resolve_unit(interval_s=6.0, home=HOME)
    done = hm.release(trace, hm.calibrate("laplace", 0.5, unit), unit, home=HOME, rng=0)
    first, *guesses, kettle = hm.explain(done)
    assert len(guesses) == len(done.promise.guesses)
    assert first == (
        "This is a simulation and must not be published. ε = 0.5 protects whether the kettle is "
        "on (2000 W), in one metered reading of 6 s."
    )
    assert kettle == (
        "From one reading, the best possible guess about the kettle is right 61.1 times out of "
        "100; from one run 89.8 times; from a whole day over 99.9 times. A coin is right 50 times."
    )
    assert hm.explain(done.receipt) == (
        "This is a simulation and must not be published. ε = 0.5 protects any use of up to "
        "3.33 Wh and 2 kW, in one metered reading of 6 s.",
        *guesses,
    )


def test_costs_in_watts_and_money():
    sentences = hm.explain(expect_cost(hm.Laplace(1.0, 2000.0, on_grid=True), 1800.0))
    assert sentences[0] == (
        "A released reading (30 min) is off by 2 kW on average, and the mean of an hour by 1.6 kW."
    )
    assert "on the bill at 0.30 per kWh" in sentences[1]


def test_there_are_no_words_for_anything_else():
    with pytest.raises(TypeError, match="Advice, got int"):
        hm.explain(3)
