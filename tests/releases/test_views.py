"""Calendar releases: their noise, the errors of every view, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hushmeter.releases.calendar import lay_out
from hushmeter.releases.least_squares import TABLES
from hushmeter.releases.views import add_up

import hushmeter as hm
from hushmeter.errors import DataError, InputError

KETTLE = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)


def hourly(days, start="2024-03-01T00:00Z", seed=0, steps=None):
    rng = np.random.default_rng(seed)
    count = 24 * days if steps is None else len(steps)
    return hm.Trace(rng.gamma(1.0, 300.0, count), 3600.0, start, steps=steps)


def test_released_tables_have_the_noise_of_the_plan():
    """The exact sampler end to end: standardised noise of 60 simulated releases of a month."""
    trace = hourly(30)
    calendar = lay_out(trace, "UTC")
    errors = [[] for _ in range(4)]
    for seed in range(60):
        done = hm.release_views(trace, epsilon=1.9, home=KETTLE, rng=seed)
        exact = add_up(trace.readings, calendar, done.plan.grid)
        for j in range(4):
            errors[j].append((done.tables[j] - exact[j]).ravel() / done.plan.sigmas[j])
    for j, name in enumerate(TABLES):
        values = np.concatenate(errors[j])
        spread = 5 / math.sqrt(2 * values.size)
        assert values.std() == pytest.approx(1.0, abs=spread), name
        assert abs(values.mean()) < 5 / math.sqrt(values.size), name
    # The noise of two tables is independent.
    totals, firsts = np.concatenate(errors[3]), np.array([e[0] for e in errors[1]])
    assert abs(np.corrcoef(totals, firsts)[0, 1]) < 0.6


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_every_view_has_the_stated_standard_error(zone):
    """Errors of 80 simulated releases, over a change of the clock, divided by what is stated."""
    steps = np.delete(np.arange(24 * 40), slice(100, 113))
    trace = hourly(40, "2024-03-10T00:00Z" if zone == "UTC" else "2024-03-09T23:00Z", steps=steps)
    names = ("hours", "days", "profile", "months", "register")
    scaled = {name: [] for name in names}
    truth = None
    for seed in range(80):
        done = hm.release_views(trace, epsilon=1.9, home=KETTLE, rng=seed, zone=zone)
        if truth is None:
            exact = add_up(trace.readings, done.calendar, done.plan.grid)
            same = hm.CalendarRelease(done.calendar, exact, done.plan, done.receipt)
            truth = {name: getattr(same, name).values for name in names}
            np.testing.assert_allclose(same.estimate, exact[0], atol=1e-4)
        for name in names:
            view = getattr(done, name)
            scaled[name].append((view.values - truth[name]) / view.errors)
    for name in names:
        per_run = np.mean(np.square(scaled[name]), axis=1)
        assert per_run.mean() == pytest.approx(1, abs=5 * per_run.std() / math.sqrt(80)), name


def test_views_have_less_error_than_hours_alone():
    """D = 30 and the kettle's run: the rounding to whole watts costs less than a hundredth."""
    done = hm.release_views(hourly(30, "2024-04-01T00:00Z"), epsilon=1.9, home=KETTLE, rng=0)
    unit = hm.resolve_unit("appliance", "run", interval_s=3600.0, home=KETTLE)
    today = hm.calibrate("gaussian", 1.9, unit).std
    assert done.hours.errors.mean() / today == pytest.approx(1.10, abs=0.01)
    assert done.days.errors.mean() * 1000 / (today * math.sqrt(24)) == pytest.approx(0.64, abs=0.01)
    assert done.profile.errors.mean() * math.sqrt(30) / today == pytest.approx(0.58, abs=0.01)
    assert done.months.errors[0] * 1000 / (today * math.sqrt(720)) == pytest.approx(0.13, abs=0.01)
    count = np.arange(1, 721)
    register = np.sqrt((1e6 * done.register.errors**2).mean() / (today**2 * count).mean())
    assert register == pytest.approx(0.40, abs=0.01)


def test_views_agree_with_each_other_and_give_traces():
    done = hm.release_views(hourly(61), epsilon=1.9, home=KETTLE, rng=2)
    assert done.calendar.months == ("2024-03", "2024-04")
    days, months = done.days, done.months
    assert months.values.sum() == pytest.approx(days.values.sum()) == done.register.values[-1]
    assert months.errors[0] < np.sqrt((days.errors[:31] ** 2).sum())
    assert done.profile.values.reshape(2, 24).mean(axis=1)[0] == pytest.approx(
        1000 * months.values[0] / (24 * 31)
    )
    np.testing.assert_allclose(done.trace("1d").readings * 0.024, days.values)
    assert len(done.trace()) == 24 * 61
    assert done.hours.to_pandas().columns.tolist() == ["timestamp", "watts", "watts_standard_error"]


def test_a_seed_is_a_simulation_and_a_key_replays():
    one, two = (hm.release_views(hourly(2), epsilon=1, home=KETTLE, rng=5) for _ in range(2))
    assert one.receipt["kind"] == "simulation"
    np.testing.assert_array_equal(one.tables[0], two.tables[0])
    keyed = [hm.release_views(hourly(2), epsilon=1, home=KETTLE, key=bytes(32)) for _ in range(2)]
    np.testing.assert_array_equal(keyed[0].tables[3], keyed[1].tables[3])
    real = hm.release_views(hourly(2), epsilon=1, home=KETTLE)
    assert real.receipt["kind"] == "release"
    assert (real.tables[0] != keyed[0].tables[0]).any()


def test_nothing_public_depends_on_the_readings():
    one, two = (hm.release_views(hourly(31, seed=s), epsilon=1, home=KETTLE) for s in (0, 1))
    assert one.receipt == two.receipt


def test_the_account_covers_all_tables():
    home = hm.Home(
        [hm.Appliance("kettle", 2100.0, run_s=180.0), hm.Appliance("lamp", 60.0)], tolerance=20.0
    )
    done = hm.release_views(hourly(30), epsilon=1.9, home=home, appliance="kettle", rng=1)
    kettle, lamp = done.private.appliances
    assert kettle.run.odds == pytest.approx(done.receipt["odds"])
    assert kettle.run.epsilon == pytest.approx(1.9, rel=1e-3)
    assert 0.5 < kettle.unknown.odds < kettle.run.odds
    assert lamp.run is None
    assert "right guesses out of 100" in str(done)


@pytest.mark.parametrize(
    ("trace", "keywords", "kind", "message"),
    [
        (hourly(1)[:20], {}, DataError, "at least one day of readings"),
        (
            hm.Trace(np.ones(40), 3600.0, "2024-01-31T18:00Z"),
            {},
            DataError,
            "2024-01 has no complete day; leave out its readings",
        ),
        (hourly(2), {"span": "when"}, InputError, "use `release` instead"),
        (hourly(2), {"hourly_cost": 1.0}, InputError, "hourly_cost must be above"),
        (hourly(2), {"every": "7h"}, InputError, "must divide a day"),
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
        hm.release_views(trace, **{"epsilon": 1, "home": KETTLE, "rng": 0, **keywords})


def test_a_missing_reading_does_not_raise_the_sensitivity():
    """Two releases with the same key differ by the change of the cells before the noise."""
    unit = hm.resolve_unit("appliance", "run", interval_s=60.0, home=KETTLE, every="1h")
    keep = np.ones(2 * 1440, dtype=bool)
    keep[5:11] = False  # 90 % of the first hour is present.
    steps = np.flatnonzero(keep)
    tables = []
    for watts in (0.0, unit.changes[0].watts):
        readings = np.full(2 * 1440, 500.0)
        readings[20 : 20 + round(unit.changes[0].seconds / 60)] += watts
        trace = hm.Trace(readings[steps], 60.0, "2024-03-01T00:00Z", steps=steps)
        done = hm.release_views(trace, epsilon=1, unit=unit, key=bytes(32))
        tables.append(done.tables)
        # The estimate is that of the readings that are present.
        exact = done.tables[0][0] * float(done.plan.grid) / 0.9
        assert abs(done.estimate[0] - exact) < 5 * done.hours.errors[0]
        assert done.shares[0] == 0.9
        assert done.hours.to_pandas()["share"].tolist()[:2] == [0.9, 1.0]
    lengths = [np.linalg.norm(one - two) for one, two in zip(*tables, strict=True)]
    assert lengths[0] > 0
    for length, declared in zip(lengths, done.plan.sensitivities, strict=True):
        assert length <= declared
