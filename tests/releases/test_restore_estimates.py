"""Released hours with their errors: what is read, how it is added up, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import chi2

import hushmeter as hm
from hushmeter.errors import DataError
from hushmeter.releases.restore import holds_estimates, read_estimates, read_restored, restore_file

HOME = hm.synth.ready_home("evening")
KETTLE = HOME.subset(["kettle"])
ZONE = "Europe/Berlin"


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """Two homes of 40 local days, as calendar releases and as restored files."""
    folder = tmp_path_factory.mktemp("estimates")
    loads = []
    for seed in range(2):
        meter = {"interval_s": 300.0, "start": "2024-01-20T23:00Z"}
        load = hm.synth.trace(HOME, 288 * 40, seed=seed, **meter).coarsen("1h")
        hm.release_views(load, epsilon=0.5, home=KETTLE, zone=ZONE).save(folder / f"home{seed}")
        restore_file(folder / f"home{seed}").save(folder / "restored" / f"home{seed}.csv")
        loads.append(load)
    return folder, loads


def true_sums(load, every, zone_hours):
    local = load.times + np.timedelta64(zone_hours, "h")
    unit = {"hour": "h", "day": "D", "month": "M"}[every]
    _, place = np.unique(local.astype(f"datetime64[{unit}]"), return_inverse=True)
    return np.bincount(place, load.readings)


@pytest.mark.parametrize("every", ["hour", "day", "month"])
@pytest.mark.parametrize("part", ["", "restored"])
def test_sums_are_within_their_errors(released, part, every):
    """Squared errors divided by the stated ones: about 1, and less for sums of restored hours."""
    folder, loads = released
    scaled = []
    for estimate, load in zip(read_estimates(folder / part), loads, strict=True):
        _, cells, watts, errors = estimate.sums(every)
        assert cells.sum() == len(load)
        truth = true_sums(load, every, 0 if part else 1)
        scaled.append((watts - truth) / errors)
    values = np.concatenate(scaled)
    square = (values**2).mean() * values.size
    # The variances of restored values are estimates themselves.
    assert square < chi2.isf(1e-7, values.size) * (1.3 if part else 1.01)
    if not part or every == "hour":
        assert square > chi2.ppf(1e-7, values.size) * (0.7 if part else 0.99)


def test_periods_begin_at_midnight_of_the_zone(released):
    folder, _ = released
    calendar = read_estimates(folder / "home0")[0]
    assert calendar.zone == ZONE
    assert str(calendar.sums("day")[0][0]) == "2024-01-20T23:00:00.000000000"
    assert str(calendar.sums("month")[0][1]) == "2024-01-31T23:00:00.000000000"
    starts, cells, watts, errors = calendar.sums("all")
    assert (starts.size, cells[0]) == (1, 960)
    assert watts[0] == pytest.approx(calendar.trace.readings.sum())
    months = calendar.sums("month")[3]
    assert errors[0] == pytest.approx(np.hypot(*months))


def test_days_have_24_hours(released):
    folder, loads = released
    values, errors, days = read_estimates(folder / "home1")[0].days()
    assert values.shape == errors.shape == (40, 24)
    assert str(days[0]) == "2024-01-21"
    scaled = (values - loads[1].readings.reshape(40, 24) / 1000) / errors
    assert (scaled**2).mean() == pytest.approx(1, abs=6 * np.sqrt(2 / 960))


def test_what_is_no_estimate_is_refused(released, tmp_path):
    folder, loads = released
    assert holds_estimates(folder)
    assert holds_estimates(folder / "restored" / "home0.csv")
    hm.write_meter(tmp_path / "meter.csv", loads[0])
    assert not holds_estimates(tmp_path)
    assert not holds_estimates(tmp_path / "meter.csv")
    with pytest.raises(DataError, match=r"neither .*release.* nor a restored file"):
        read_estimates(tmp_path / "meter.csv")
    restored = read_restored(folder / "restored" / "home0.csv")
    changed, mark = restored.save(tmp_path / "restored.csv")
    again = read_restored(changed)
    np.testing.assert_allclose(again.std, restored.std)
    np.testing.assert_array_equal(again.trace.times, restored.trace.times)
    changed.write_text(changed.read_text().replace("2024-01-21", "2024-01-22", 1))
    with pytest.raises(DataError, match="its SHA-256 differs"):
        read_restored(changed)
    fields = json.loads(mark.read_text())
    del fields["file"]
    mark.write_text(json.dumps(fields))
    with pytest.raises(DataError, match="missing or impossible entry"):
        read_restored(changed)
    hm.release_views(loads[0], epsilon=1, home=KETTLE, rng=1).save(tmp_path / "simulated")
    with pytest.raises(DataError, match=r"does not verify: .* is a simulation"):
        read_estimates(tmp_path / "simulated")
