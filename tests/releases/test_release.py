from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushmeter as hm
from hushmeter.apps.ledger import DayChange, open_ledger
from hushmeter.errors import DataError, InputError, UnknownNameError
from hushmeter.releases.labels import VIEWS
from hushmeter.releases.promise import promise_of
from hushmeter.releases.receipt import describe_promise, digest

HOME = hm.synth.ready_home("evening")
TRACE = hm.synth.trace(HOME, 2400, seed=3)
UNIT = hm.resolve_unit(interval_s=6.0, home=HOME)


def test_a_release_keeps_times_and_drops_the_truth():
    done = hm.release(TRACE, hm.Laplace(1.0, 7200.0), UNIT, home=HOME)
    np.testing.assert_array_equal(done.trace.times, TRACE.times)
    assert done.trace.states is None
    assert done.trace.power is None
    assert done.trace.names is None
    assert (done.trace.readings == np.rint(done.trace.readings)).all()
    assert (done.trace.readings != TRACE.readings).any()


def test_two_releases_differ_and_a_seed_is_a_simulation():
    mechanism = hm.Laplace(1.0, 7200.0)
    one, two = (hm.release(TRACE, mechanism, UNIT, home=HOME) for _ in range(2))
    assert (one.trace.readings != two.trace.readings).any()
    assert one.receipt.kind == "release"
    seeded = [hm.release(TRACE, mechanism, UNIT, home=HOME, rng=5) for _ in range(2)]
    np.testing.assert_array_equal(seeded[0].trace.readings, seeded[1].trace.readings)
    assert seeded[0].receipt.kind == "simulation"
    assert str(seeded[0].receipt).startswith("simulation: ")


def test_keyed_releases_replay():
    key = bytes(range(32))
    mechanism = hm.Staircase(1.0, 7200.0)
    one, two = (hm.release(TRACE, mechanism, UNIT, home=HOME, key=key) for _ in range(2))
    assert one.receipt.output["sha256"] == two.receipt.output["sha256"] == digest(two.trace)


def test_the_receipt_states_the_effective_epsilon():
    """The paper's Δf = δ/2 hides fluctuations at ε, and an appliance only at ε·P/Δf."""
    mechanism = hm.Laplace(0.1, HOME.tolerance / 2, on_grid=False)
    fluctuation = hm.resolve_unit("fluctuation", interval_s=6.0, home=HOME)
    kettle = hm.resolve_unit(interval_s=6.0, home=HOME, appliance="kettle")
    hidden = hm.release(TRACE, mechanism, fluctuation, home=HOME, rng=0)
    seen = hm.release(TRACE, mechanism, kettle, home=HOME, rng=0)
    assert hidden.receipt.epsilon == pytest.approx(0.1)
    assert seen.receipt.epsilon == pytest.approx(0.1 * 2101 / 11)
    assert "not switches" in hidden.receipt.unit["sentence"]


def test_means_over_longer_intervals():
    unit = hm.resolve_unit("appliance", "run", interval_s=6.0, home=HOME, every="30min")
    done = hm.release(TRACE, hm.Gaussian(1.0, 1e-6, 7200.0), unit, home=HOME, rng=1)
    assert done.trace.interval_s == 1800.0
    assert len(done.trace) == 8
    assert done.receipt.unit["window"] == 300
    assert done.receipt.delta == 1e-6
    noise = done.trace.readings - TRACE.coarsen("30min").readings
    assert np.abs(noise).max() < 8 * done.receipt.tables[0]["noise"]["scale"]


def test_without_a_home_a_change_is_protected():
    unit = hm.resolve_unit("change", interval_s=6.0, size=100.0)
    done = hm.release(TRACE, hm.Laplace(1.0, 100.0), unit, rng=0)
    assert done.receipt.epsilon == pytest.approx(1.0)
    assert done.private.appliances == ()


def test_nothing_is_released_from_bad_readings():
    too_large = hm.Trace([0.0, 1e30], 6.0)
    with pytest.raises(hm.errors.DataError, match="nothing was released: row 1"):
        hm.release(too_large, hm.Laplace(1.0, 100.0), UNIT, home=HOME)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TRACE, 1.0), "needs a Mechanism as its mechanism, from hm.calibrate; got a float"),
        ((TRACE.readings, hm.Laplace(1, 10)), "needs a Trace as its trace, .*; got a ndarray"),
        ((TRACE, hm.Laplace(1, 10)), "needs a Unit as its unit, from hm.resolve_unit; got nothing"),
        ((TRACE, hm.Laplace(1, 10), "run"), "needs a Unit as its unit, .*; got a str"),
    ],
)
def test_an_argument_of_the_wrong_type_is_one_sentence(arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        hm.release(*arguments)
    assert "\n" not in str(caught.value)


def test_an_attacker_sees_less_at_smaller_epsilon():
    truth = TRACE.truth()
    attacker = hm.attackers["hierarchical"](HOME, solver="exact", direction="signed")
    seen = []
    for epsilon in (20.0, 0.02):
        mechanism = hm.Laplace(epsilon, 7200.0)
        done = hm.release(TRACE, mechanism, UNIT, home=HOME, rng=1)
        states = attacker.predict(done.trace, initial_state=truth[0], rng=0)
        seen.append(hm.score(states, truth).balanced_accuracy)
    assert seen[0] > seen[1]


def test_a_clamp_bounds_metered_readings_before_their_mean():
    """One reading beyond the clamp must not move a mean of ten by more than a tenth of it."""
    unit = hm.resolve_unit("range", interval_s=6.0, size=(0, 100), every="1min")
    noise = hm.calibrate("laplace", 1.0, unit, clamp=(0, 100))
    quiet = np.zeros(40)
    spike = quiet.copy()
    spike[0], spike[12] = 1e6, -1e6
    pair = [hm.Trace(readings, 6.0) for readings in (quiet, spike)]
    promise = hm.release(pair[0], noise, unit, rng=1).promise
    one, other = (promise.exact_sums(trace)[0] * noise.grid for trace in pair)
    assert (other - one).tolist() == [10.0, 0.0, 0.0, 0.0]


def test_a_unit_for_another_meter_is_refused():
    unit = hm.resolve_unit("change", interval_s=60.0, size=10.0)
    with pytest.raises(InputError, match="for readings of 60 s, but those of the trace are of 6 s"):
        hm.release(TRACE, hm.Laplace(1, 10), unit)


def test_the_composed_epsilon_of_gaussian_noise_is_at_its_own_delta():
    """δ = 0.001 of the noise must not pass for the δ' = 1e-6 of the table."""
    done = hm.release(TRACE, hm.Gaussian(1, 1e-3, 7200), UNIT, home=HOME, rng=0)
    charger = next(a for a in done.private.appliances if a.watts == 7200)
    assert done.receipt.epsilon == 1.0
    assert charger.reading.epsilon > 1.4


def test_a_day_that_does_not_end_with_a_reading_is_rounded_up():
    """A civil day has up to 90 000 s, 12 857.14 readings of 7 s, and may begin within a reading."""
    home = hm.Home([hm.Appliance("lamp", 10.0)], tolerance=1.0)
    unit = hm.resolve_unit(interval_s=7.0, home=home)
    done = hm.release(hm.Trace(np.zeros(5), 7.0), hm.Laplace(0.001, 10), unit, home=home, rng=0)
    lamp = done.private.appliances[0]
    assert lamp.day.readings == 12_859
    # Rounding adds one step to each value, and float arithmetic the slack of 2^−14 steps.
    steps = math.floor(10 * 90_000 / 7 + 12_859 * 2**-14) + 12_859
    assert lamp.day.basic == pytest.approx(0.001 * steps / 11, rel=1e-9)


def test_a_unit_that_does_not_count_the_meter_is_refused():
    """Readings of a register need a unit that knows its step and the length of the period."""
    metering = hm.Metering(register_step_w=1.0)
    trace = hm.Trace(np.full(24, 100.0), 3600.0, metering=metering)

    def counted(facts):
        return hm.resolve_unit("change", interval_s=facts, size=2000.0)

    ideal, short = counted(3600.0), counted(hm.Metered(3600.0, metering, readings=23))
    mechanism = hm.calibrate("laplace", 1, ideal)
    for unit in (ideal, short):
        with pytest.raises(InputError, match=r"resolve the request with metered\(trace\)"):
            hm.release(trace, mechanism, unit)
        assert hm.release(trace, mechanism, unit, rng=0).receipt.kind == "simulation"
    assert hm.release(trace, mechanism, counted(hm.metered(trace))).receipt.epsilon > 1


def month(seed=0, days=4, interval_s=600.0, start="2024-03-29T23:00Z"):
    """Readings that cross a change of the clock in Berlin; they begin at its midnight."""
    rng = np.random.default_rng(seed)
    count = round(days * 86_400 / interval_s)
    return hm.Trace(np.round(rng.gamma(1.0, 300.0, count), 1), interval_s, start)


KETTLE = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)


def test_when_publishes_exact_sums_of_complete_days(tmp_path):
    """The differences of a register add up to those of its ends, wherever a run is."""
    trace = month()
    metering = hm.Metering(register_step_w=0.1)
    trace = hm.Trace(trace.readings, 600.0, trace.start, metering=metering)
    facts = hm.metered(trace, "Europe/Berlin")
    unit = hm.resolve_unit("appliance", "when", interval_s=facts, home=KETTLE, every="1h")
    done = hm.release(trace, hm.calibrate("gaussian", 1.9, unit), unit, home=KETTLE)
    # The second day has 23 hours; the last hour of the trace belongs to an incomplete day.
    bounds = [0, 24, 47, 71, 95]
    exact = []
    for first, stop in itertools.pairwise(bounds):
        exact.append(trace.readings[6 * first : 6 * stop].sum() / 6)
        assert done.trace.readings[first:stop].sum() == pytest.approx(exact[-1], abs=1e-5)
    days = done.view("days")
    assert (days.unit, days.errors.max()) == ("kWh", 0)
    np.testing.assert_allclose(days.values, np.array(exact) / 1000, atol=1e-8)
    assert done.trace.readings[95] == np.rint(done.trace.readings[95])
    assert str(done).startswith("Not hidden: whether an appliance ran.")
    assert str(done.receipt).startswith("Not hidden: whether an appliance ran.")
    assert "when it ran" in str(done)
    assert "show whether the kettle ran" in " ".join(hm.explain(done))
    done.save(tmp_path / "out.csv")
    assert hm.verify(tmp_path / "out.csv").passed


def test_when_has_the_stated_hourly_error_and_none_over_a_day():
    """√(2·23/24) = 1.384 times the error of an hour at the same odds, and no error of a day."""
    trace = month(days=400, interval_s=3600.0, start="2023-01-01T00:00Z")
    run = hm.resolve_unit("appliance", "run", interval_s=3600.0, home=KETTLE)
    when = hm.resolve_unit("appliance", "when", interval_s=3600.0, home=KETTLE)
    assert when.l2 / run.l2 == pytest.approx(math.sqrt(2))
    mechanism = hm.calibrate("gaussian", 1.9, when)
    done = hm.release(trace, mechanism, when, home=KETTLE, rng=1)
    errors = done.trace.readings - trace.readings
    wanted = mechanism.std * math.sqrt(23 / 24)
    # The standard deviation of 9200 independent errors has a relative error of 0.74 per cent.
    assert errors.std() == pytest.approx(wanted, rel=4.9 * 0.0074)
    assert np.abs(errors.reshape(-1, 24).sum(axis=1)).max() < 1e-5


METER = hm.Metered(3600.0, hm.Metering(resolution_w=10.0))


def moved_pair(rng):
    """Two days of hourly readings, rounded to 10 Wh, with one kettle run at different times."""
    base = np.round(rng.gamma(1.0, 300.0, 24), 1)
    pair = []
    for begin in rng.uniform(0, 86_400 - 180, 2):
        watts = base.copy()
        for hour in range(24):
            inside = min(begin + 180, 3600 * (hour + 1)) - max(begin, 3600 * hour)
            watts[hour] += 2100 * max(0.0, inside) / 3600
        pair.append(np.round(watts / 10) * 10)
    return pair


def test_rounding_moves_a_published_day_by_no_more_than_is_counted():
    unit = hm.resolve_unit("appliance", "when", home=KETTLE, interval_s=METER)
    rng = np.random.default_rng(3)
    moved = 0
    for _ in range(2000):
        one, two = moved_pair(rng)
        change = np.abs(one - two)
        day = abs(one.sum() - two.sum())
        moved += day > 0
        assert day <= unit.changes[0].day_sum_w
        published = np.append(change, unit.day_scale * day)
        assert published.sum() <= unit.l1
        assert np.sqrt((published**2).sum()) <= unit.l2
        assert np.count_nonzero(published) <= unit.touches
        assert published.max() <= unit.largest
    # About half of all moves change the sum of the day, which would show the time of the run.
    assert moved > 700


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "staircase"])
def test_the_sums_of_days_of_a_rounding_meter_have_the_stated_noise(mechanism):
    days = 600
    readings = np.tile(moved_pair(np.random.default_rng(1))[0], days)
    trace = hm.Trace(readings, 3600.0, "2024-01-01T00:00Z", metering=METER.metering)
    unit = hm.resolve_unit("appliance", "when", home=KETTLE, interval_s=METER)
    noise = hm.calibrate(mechanism, 1.0, unit)
    done = hm.release(trace, noise, unit, home=KETTLE)
    errors = done.trace.readings - readings
    # Weight of the published sum of a day against that of its 24 noisy values.
    weight = 24 * unit.day_scale**2 / (24 * unit.day_scale**2 + 1)
    assert 0 < weight < 1
    stated = noise.std * math.sqrt(24 * (1 - weight))
    # The kurtosis of the noise is at most 6 or so; the sum of 24 values is nearly normal.
    assert errors.reshape(days, 24).sum(axis=1).std() == pytest.approx(stated, rel=0.35)
    assert errors.std() == pytest.approx(noise.std * math.sqrt(1 - weight / 24), rel=0.2)
    assert done.receipt.epsilon == pytest.approx(1.0, rel=1e-9)
    assert "published with less noise" in str(done)


def test_when_needs_the_step_of_the_meter(tmp_path):
    """A whole raw file: kWh with two decimals, without and with its step."""
    one, _ = moved_pair(np.random.default_rng(1))
    times = np.datetime64("2024-01-15T00:00") + np.arange(24) * np.timedelta64(1, "h")
    lines = [f"{time}Z,{value / 1000:.2f}" for time, value in zip(times, one, strict=True)]
    (tmp_path / "meter.csv").write_text("\n".join(["timestamp,kWh", *lines]) + "\n")
    unknown = hm.read_meter(tmp_path / "meter.csv")
    when = {"protect": "appliance", "span": "when", "home": KETTLE}
    with pytest.raises(InputError, match=r"state the step of the readings.*--step"):
        hm.Request(epsilon=1, **when).resolve(hm.metered(unknown)).release(unknown)
    unit = hm.resolve_unit(**when, interval_s=3600.0)
    noise = hm.calibrate("laplace", 1, unit)
    with pytest.raises(InputError, match=r"state the step of the readings.*--step"):
        hm.release(unknown, noise, unit)
    stated = hm.read_meter(tmp_path / "meter.csv", step=0.01)
    unit = hm.resolve_unit(**when, interval_s=hm.metered(stated))
    found = {
        round(hm.release(stated, hm.calibrate("laplace", 1, unit), unit).trace.readings.sum(), 3)
        for _ in range(20)
    }
    assert len(found) > 10


def test_a_moved_run_leaves_no_trace_in_the_last_digits():
    """The published sum of a day is one number, wherever the run is, in floating point too."""
    register = hm.Metering(register_step_w=0.001)
    facts = hm.Metered(600.0, register, readings=144)
    unit = hm.resolve_unit("appliance", "when", interval_s=facts, home=KETTLE, every="1h")
    mechanism = hm.calibrate("gaussian", 1.9, unit)
    sums = set()
    for place in range(0, 144, 7):
        readings = np.full(144, 0.1)
        readings[place] += 0.7
        trace = hm.Trace(readings, 600.0, metering=register)
        promise = hm.release(trace, mechanism, unit, rng=1).promise
        sums.add(float(promise.exact_sums(trace)[1][0]))
    assert len(sums) == 1


def test_a_notebook_shows_the_public_receipt_only():
    home = hm.Home([hm.Appliance("secret kettle", 2000.0, run_s=120.0)], 20.0, name="secret home")
    trace = hm.synth.trace(home, 300, seed=1)
    unit = hm.resolve_unit("appliance", "reading", interval_s=6.0, home=home)
    done = hm.release(trace, hm.calibrate("laplace", 1.0, unit), unit, home=home)
    text = done._repr_html_()
    assert "secret" not in text
    assert "any use of up to" in text
    assert "<polyline" in text
    assert len(text) < 5000


def test_an_hour_with_a_lost_reading_is_released_without_bias():
    """The noise is so small that the mean of the readings that are present must come out."""
    steps = np.setdiff1d(np.arange(720), [5, 400, 401])
    trace = hm.Trace(np.full(steps.size, 500.0), 10.0, "2024-01-01T00:00Z", steps=steps)
    unit = hm.resolve_unit("change", interval_s=10.0, size=1.0, every="1h")
    done = hm.release(trace, hm.calibrate("laplace", 20, unit, grid=0.01), unit)
    np.testing.assert_allclose(done.trace.readings, 500.0, atol=0.1)
    assert done.receipt.unit["l1"] == unit.l1


@settings(max_examples=150, deadline=None)
@given(
    st.sets(st.integers(0, 719), max_size=60),
    st.integers(0, 700),
    st.integers(1, 90),
    st.sampled_from(["15min", "1h"]),
)
def test_missing_readings_never_increase_the_sensitivity(lost, begin, length, every):
    """One more run moves the windows, whichever readings are missing, by Δ1, Δ2 and `largest`."""
    steps = np.setdiff1d(np.arange(720), sorted(lost))
    base = hm.Trace(np.full(steps.size, 200.0), 10.0, "2024-01-01T00:00Z", steps=steps)
    on = (steps >= begin) & (steps < begin + length)
    other = base.replace_readings(base.readings + 2000.0 * on)
    home = hm.Home([hm.Appliance("kettle", 2000.0, run_s=10.0 * length)])
    unit = hm.resolve_unit("appliance", "run", interval_s=10.0, home=home, every=every)
    try:
        promise = promise_of(hm.calibrate("laplace", 1, unit), unit, hm.metered(base), home)
        moved = np.abs(promise.means(base) - promise.means(other))
    except DataError:
        return
    assert moved.sum() <= unit.l1 * (1 + 1e-9)
    assert np.sqrt((moved**2).sum()) <= unit.l2 * (1 + 1e-9)
    assert moved.max() <= unit.largest * (1 + 1e-9)
    assert (moved > 1e-9).sum() <= unit.touches


# Several tables ---------------------------------------------------------------------------------

PEAK, NIGHT = "peak = weekdays 16:00-21:00", "night = 00:00-07:00"


def hourly(days, start="2024-03-01T00:00Z", seed=0, steps=None):
    rng = np.random.default_rng(seed)
    count = 24 * days if steps is None else len(steps)
    return hm.Trace(rng.gamma(1.0, 300.0, count), 3600.0, start, steps=steps)


def released(trace, *, zone="UTC", rng=None, key=None, **request):
    given = {"epsilon": 1.9, "home": KETTLE, "tables": VIEWS, **request}
    return hm.release_views(trace, zone=zone, rng=rng, key=key, **given)


@pytest.mark.parametrize("tables", [VIEWS, (*VIEWS, PEAK, NIGHT), ("days", "months")])
def test_released_tables_have_the_noise_of_the_promise(tables):
    """The exact sampler end to end: standardised noise of 60 simulated releases of a month."""
    trace = hourly(30)
    promise = hm.Request(epsilon=1.9, home=KETTLE, tables=tables).resolve(hm.metered(trace))
    exact = promise.exact_sums(trace)
    errors = [[] for _ in promise.tables]
    for seed in range(60):
        done = promise.release(trace, rng=seed)
        for j, entry in enumerate(promise.tables):
            steps = done.noisy_steps(entry.name) - exact[j]
            errors[j].append(steps / entry.noise.sigma_steps)
    for values in map(np.concatenate, errors):
        assert values.std() == pytest.approx(1.0, abs=5 / math.sqrt(2 * values.size))
        assert abs(values.mean()) < 5 / math.sqrt(values.size)
    # The noise of two tables is independent.
    last, first = np.array([e[0] for e in errors[-1]]), np.array([e[0] for e in errors[0]])
    assert abs(np.corrcoef(last, first)[0, 1]) < 0.6


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("tables", [VIEWS, (*VIEWS, "typical-week", "year", PEAK, NIGHT)])
def test_every_view_has_the_stated_standard_error(zone, tables):
    """Errors of 80 simulated releases, over a change of the clock, divided by what is stated."""
    steps = np.delete(np.arange(24 * 40), slice(100, 113))
    trace = hourly(40, "2024-03-10T00:00Z" if zone == "UTC" else "2024-03-09T23:00Z", steps=steps)
    request = hm.Request(epsilon=1.9, home=KETTLE, tables=tables)
    promise = request.resolve(hm.metered(trace, zone))
    sums = [steps * float(promise.grid) for steps in promise.exact_sums(trace)]
    same = hm.Release(promise, tuple(sums))
    np.testing.assert_allclose(same.estimate, sums[0], atol=1e-4)
    truth = {view.name: view.values for view in same.views}
    assert {"hours", "days", "months", "register", "typical-day"} <= truth.keys()
    scaled = {name: [] for name in truth}
    for seed in range(80):
        for view in promise.release(trace, rng=seed).views:
            scaled[view.name].append((view.values - truth[view.name]) / view.errors)
    for name, values in scaled.items():
        per_run = np.mean(np.square(values), axis=1)
        assert per_run.mean() == pytest.approx(1, abs=5 * per_run.std() / math.sqrt(80)), name


def test_views_without_hours_have_the_stated_standard_error():
    trace = hourly(40)
    request = hm.Request(epsilon=1.9, home=KETTLE, tables=("days", "months", PEAK))
    promise = request.resolve(hm.metered(trace))
    truth = {
        entry.name: s for entry, s in zip(promise.tables, promise.exact_sums(trace), strict=True)
    }
    scaled = {name: [] for name in truth}
    for seed in range(60):
        done = promise.release(trace, rng=seed)
        assert done.view_names == ("days", "months", "bands")
        for view in done.views:
            exact = truth[view.name] * float(promise.grid) / 1000
            scaled[view.name].append((view.values - exact) / view.errors)
    for name, values in scaled.items():
        per_run = np.mean(np.square(values), axis=1)
        assert per_run.mean() == pytest.approx(1, abs=5 * per_run.std() / math.sqrt(60)), name
    with pytest.raises(InputError, match="no view named 'hours'"):
        done.view("hours")


def test_views_have_less_error_than_hours_alone():
    """D = 30 and the kettle's run: the rounding to the grid costs less than a hundredth."""
    done = released(hourly(30, "2024-04-01T00:00Z"), rng=0)
    unit = hm.resolve_unit("appliance", "run", interval_s=3600.0, home=KETTLE)
    today = hm.calibrate("gaussian", 1.9, unit, grid="0.2").std
    errors = {view.name: view.errors for view in done.views}
    assert errors["hours"].mean() / today == pytest.approx(1.10, abs=0.01)
    assert errors["days"].mean() * 1000 / today == pytest.approx(0.64 * math.sqrt(24), abs=0.05)
    assert errors["typical-day"].mean() * math.sqrt(30) / today == pytest.approx(0.58, abs=0.01)
    assert errors["months"][0] * 1000 / (today * math.sqrt(720)) == pytest.approx(0.13, abs=0.01)
    count = np.arange(1, 721)
    register = np.sqrt((1e6 * errors["register"] ** 2).mean() / (today**2 * count).mean())
    assert register == pytest.approx(0.40, abs=0.01)


def test_views_agree_with_each_other_and_give_traces():
    done = released(hourly(61), rng=2)
    days, months = done.view("days"), done.view("months")
    assert months.labels["month"].tolist() == ["2024-03", "2024-04"]
    assert months.values.sum() == pytest.approx(days.values.sum())
    assert done.view("register").values[-1] == pytest.approx(days.values.sum())
    assert months.errors[0] < np.sqrt((days.errors[:31] ** 2).sum())
    typical = done.view("typical-day").values.reshape(2, 24)
    assert typical.mean(axis=1)[0] == pytest.approx(1000 * months.values[0] / (24 * 31))
    np.testing.assert_allclose(done.trace.coarsen("1d").readings * 0.024, days.values)
    assert done.to_pandas().columns.tolist() == ["timestamp", "watts", "watts_standard_error"]


def test_a_seed_is_a_simulation_and_a_key_replays():
    one, two = (released(hourly(2), rng=5) for _ in range(2))
    assert one.receipt.kind == "simulation"
    np.testing.assert_array_equal(one.sums[0], two.sums[0])
    keyed = [released(hourly(2), key=bytes(32)) for _ in range(2)]
    np.testing.assert_array_equal(keyed[0].sums[-1], keyed[1].sums[-1])
    real = released(hourly(2))
    assert real.receipt.kind == "release"
    assert (real.sums[0] != keyed[0].sums[0]).any()


def test_nothing_public_depends_on_the_readings():
    one, two = (released(hourly(31, seed=s), tables=(*VIEWS, PEAK)) for s in (0, 1))
    receipts = [done.receipt.to_dict() for done in (one, two)]
    for fields in receipts:
        del fields["output"]["sha256"]
    assert receipts[0] == receipts[1]
    assert describe_promise(one.promise)["epsilon"] == one.promise.epsilon


def test_the_account_covers_all_tables():
    home = hm.Home(
        [hm.Appliance("kettle", 2100.0, run_s=180.0), hm.Appliance("lamp", 60.0)], tolerance=20.0
    )
    done = released(hourly(30), home=home, appliance="kettle", rng=1)
    kettle, lamp = done.private.appliances
    assert kettle.run.odds == pytest.approx(done.receipt.odds)
    assert kettle.run.epsilon == pytest.approx(1.9, rel=1e-3)
    assert 0.5 < kettle.unknown.odds < kettle.run.odds
    assert lamp.run is None
    assert "right guesses out of 100" in str(done)


@pytest.mark.parametrize(
    ("trace", "keywords", "kind", "message"),
    [
        (hourly(1)[:20], {}, DataError, "at least one day of readings"),
        (hourly(2), {"span": "when"}, InputError, "further tables have nothing to add"),
        (hourly(2), {"hourly_cost": 1.0}, InputError, "hourly_cost must be above"),
        (hourly(2), {"every": "7h"}, InputError, "cells that divide a day"),
        (hourly(2), {"epsilon": 30}, InputError, "at most max_epsilon = 20"),
        (hourly(2), {"zone": "Europe/Atlantis"}, InputError, "time zone such as"),
        (
            hourly(2),
            {"home": hm.Home([hm.Appliance("pump", 100.0, run_s=300_000.0)], 10.0)},
            InputError,
            "longer than the period of 48 hours",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(trace, keywords, kind, message):
    with pytest.raises(kind, match=message):
        released(trace, rng=0, **keywords)


def test_a_month_without_a_complete_day_is_released():
    done = released(hm.Trace(np.ones(40), 3600.0, "2024-01-31T18:00Z"), rng=0)
    assert done.view("months").labels["month"].tolist() == ["2024-01", "2024-02"]
    assert done.view("days").labels["cells"].tolist() == [6, 24, 10]


def test_a_missing_reading_does_not_raise_the_sensitivity():
    keep = np.ones(2 * 1440, dtype=bool)
    keep[5:11] = False  # 90 % of the first hour is present.
    steps = np.flatnonzero(keep)
    tables = []
    for watts in (0.0, 2100.0):
        readings = np.full(2 * 1440, 500.0)
        readings[20:23] += watts
        trace = hm.Trace(readings[steps], 60.0, "2024-03-01T00:00Z", steps=steps)
        done = released(trace, tables=(*VIEWS, NIGHT))
        tables.append(done.promise.exact_sums(trace))
        # The estimate is that of the readings that are present.
        hours = done.view("hours")
        assert abs(done.estimate[0] - done.sums[0][0] / 0.9) < 5 * hours.errors[0]
        assert hours.to_pandas()["share"].tolist()[:2] == [0.9, 1.0]
    lengths = [np.linalg.norm(one - two) for one, two in zip(*tables, strict=True)]
    assert lengths[0] > 0
    assert (lengths <= done.promise.lengths).all()


def test_a_release_of_tables_alone_shows_no_hours():
    done = hm.release_views(hourly(61), epsilon=1.9, home=KETTLE, tables=["days", PEAK, NIGHT])
    assert done.view_names == ("days", "bands")
    assert done.noisy_steps("hours") is None
    with pytest.raises(UnknownNameError, match="hours"):
        done.view("hours")


def test_the_register_is_a_view_of_the_cells():
    """Alone it adds no table, and its errors grow like those of a sum."""
    done = released(hourly(5), tables=("hours", "register"), mechanism="gaussian")
    assert not done.promise.joint
    assert done.view_names == ("hours", "days", "months", "register")
    register = done.view("register")
    np.testing.assert_allclose(register.values, np.cumsum(done.estimate) / 1000)
    wanted = done.promise.noise.std * np.sqrt(np.arange(1, 121)) / 1000
    np.testing.assert_allclose(register.errors, wanted)


def test_exact_days_cannot_be_charged_to_a_ledger(tmp_path):
    from hushmeter.apps.ledger.payment import save_paid

    rounded = hm.Metering(resolution_w=0.1)
    trace = hm.Trace(month().readings, 600.0, month().start, metering=rounded)
    facts = hm.metered(trace)
    unit = hm.resolve_unit("appliance", "when", interval_s=facts, home=KETTLE, every="1h")
    done = hm.release(trace, hm.calibrate("gaussian", 1.9, unit), unit, home=KETTLE)
    url = f"sqlite:///{tmp_path}/l.db"
    open_ledger(url, create=DayChange.within(0, 15_000)).close()
    with pytest.raises(InputError, match="publishes the sums of the days"):
        save_paid(url, done, tmp_path / "out.csv", meter="m")
