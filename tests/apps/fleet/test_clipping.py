"""What a cap cuts off sums is part of their stated error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.apps.fleet.cases import new_ledger, readings, release_sums, write

from hushmeter.apps.fleet import SumTerms
from hushmeter.apps.fleet.clipping import CLIPPED, LOG_SPREAD, Reference, read_reference
from hushmeter.apps.fleet.job import errors_of
from hushmeter.apps.fleet.sum_terms import protected_change, size_of
from hushmeter.errors import DataError, InputError

CLAMP = (0.0, 15_000.0)


def daily_energies(count: int, seed: int, *, mean: float = 10.0, shape: float = 1.8) -> np.ndarray:
    """Energies of days that are not lognormal [kWh]."""
    return np.random.default_rng(seed).gamma(shape, mean / shape, count)


def write_reference(path, days):
    path.write_text("\n".join(["kWh", *(f"{day:.3f}" for day in days)]) + "\n")
    return str(path)


def write_fleet(folder, energies):
    """Hourly readings of meters with the given energies of days, shape (meters, days) [kWh]."""
    meters, days = energies.shape
    columns = readings(meters=tuple(f"m{n}" for n in range(meters)), days=days)
    profile = np.tile(np.linspace(0.5, 1.5, 24) / 24, days)
    watts = np.repeat(energies, 24, axis=1) * profile * 1000
    columns |= {"value": watts.ravel().tolist(), "group": ["f"] * watts.size}
    write(folder / "in/a.parquet", columns)


@pytest.mark.parametrize("cap", [None, 4.0, 15.0, 40.0])
def test_a_mean_stands_for_a_lognormal_distribution(cap):
    found = read_reference("10 kWh", cap)
    assert found.day_kwh == 10.0
    if cap is None:
        return
    law = stats.lognorm(LOG_SPREAD, scale=10 * np.exp(-(LOG_SPREAD**2) / 2))
    assert law.mean() == pytest.approx(10)
    assert found.share == pytest.approx(law.sf(cap))
    excess = law.expect(lambda x: x - cap, lb=cap) / law.sf(cap)
    assert found.excess_kwh == pytest.approx(excess, rel=1e-6)


def test_a_file_of_days_is_counted(tmp_path):
    days = [1.0] * 190 + [30.0, 26.0] * 5
    found = read_reference(write_reference(tmp_path / "days.csv", days), 20.0)
    assert (found.share, found.excess_kwh) == pytest.approx((0.05, 8.0))
    assert found.lost_share == pytest.approx(10 * 8 / sum(days))
    # No day of the file is above this cap, which does not show that none is.
    assert read_reference(str(tmp_path / "days.csv"), 50.0).share > 0


@pytest.mark.parametrize(
    ("text", "error"),
    [("10", InputError), ("0 kWh", InputError), ("none.csv", InputError), ("kWh\n1\nx", DataError),
     ("kWh\n" + "1\n" * 99, DataError), ("kWh\n" + "1\n" * 100 + "-1", DataError)],
)  # fmt: skip
def test_another_reference_is_refused(tmp_path, text, error):
    if "\n" in text:
        (tmp_path / "days.csv").write_text(text)
        text = str(tmp_path / "days.csv")
    with pytest.raises(error, match="reference"):
        read_reference(text, 20.0)


@pytest.mark.parametrize("cap", [5.0, 12.0, 20.0, 30.0])
@pytest.mark.parametrize("meters", [12, 60])
def test_the_stated_error_of_sums_is_the_measured_one(tmp_path, cap, meters):
    """Noises of a fleet: the stated error is the measured one for small, sensible and wide caps."""
    energies = daily_energies(meters * 20, 2).reshape(meters, 20)
    write_fleet(tmp_path, energies)
    reference = read_reference(
        write_reference(tmp_path / "days.csv", daily_energies(20_000, 3)), cap
    )
    terms = SumTerms(
        "2", CLAMP, ("group",), "day", cap_kwh=cap, reference=reference, interval_s=3600
    )
    ledger, ratios, stated = new_ledger(tmp_path), [], []
    for number in range(12):
        done = release_sums(
            tmp_path / "in", tmp_path / f"o{number}", terms,
            ledger=ledger if number == 0 else new_ledger(tmp_path, f"l{number}"),
        )  # fmt: skip
        table = done.tables["sums"]
        ratios.append((table["energy_kwh"] - energies.sum(axis=0)) / table["energy_se_kwh"])
        stated.append(table["energy_se_kwh"])
        counted = done.tables[CLIPPED]
        off = counted["clipped_days"][0] - (energies > cap).sum()
        assert abs(off) < 6 * counted["clipped_se"][0]
        assert counted["customer_days"][0] == energies.size
    measured = float(np.sqrt(np.mean(np.square(ratios))))
    # 240 numbers: their mean square is known to about 9 %, so the root to 5 %.
    assert 0.7 < measured < 1.2
    noise = terms.promise.error("sums") / 1000
    assert np.min(stated) > noise


def test_one_customer_day_moves_the_count_by_one(tmp_path):
    """Days above the cap are counted once, in every level, whatever the rows of the files are."""
    energies = daily_energies(60, 4).reshape(6, 10)
    reference = read_reference("10kWh", 12.0)
    terms = SumTerms("1", CLAMP, ("group",), "day", cap_kwh=12.0, reference=reference)
    size = size_of(terms, CLIPPED, protected_change(terms))
    assert (size.l1, size.l2, size.touches) == (1, 1, 1)
    two = replace(terms, by=("region", "group"))
    assert size_of(two, CLIPPED, protected_change(two)).l1 == 2
    month = replace(terms, unit_of="household", days=("2024-01-01", "2024-01-10"))
    assert size_of(month, CLIPPED, protected_change(month)).l1 == 10
    found = []
    for changed in (energies, np.where(np.arange(10) == 3, 99.0, energies)):
        folder = tmp_path / str(len(found))
        write_fleet(folder, np.minimum(changed, 100))
        done = release_sums(folder / "in", folder / "out", replace(terms, epsilon="20"),
                            ledger=new_ledger(folder))  # fmt: skip
        found.append((done.tables[CLIPPED]["clipped_days"][0], (changed > 12).sum()))
    for noisy, exact in found:
        # There are only 60 customer-days, and the noise has a standard deviation of about 1.4.
        assert abs(noisy - exact) < 20
    assert sum(terms.shares.values()) == 1
    assert float(terms.promise.epsilon) <= 1


def test_sums_whose_size_nobody_stated_are_not_paid_for(tmp_path):
    write_fleet(tmp_path, daily_energies(40, 5).reshape(4, 10))
    ledger = new_ledger(tmp_path)
    terms = SumTerms("1", CLAMP, ("group",), "day")
    with pytest.raises(InputError, match="nobody stated how large the sums are"):
        release_sums(tmp_path / "in", tmp_path / "out", terms, ledger=ledger, accept_noise=False)
    stated = replace(terms, reference=read_reference("10kWh", None))
    with pytest.raises(InputError, match="of the stated load"):
        release_sums(tmp_path / "in", tmp_path / "out", stated, ledger=ledger, accept_noise=False)
    large = replace(stated, min_meters=1000)
    done = release_sums(tmp_path / "in", tmp_path / "out", large, ledger=ledger, accept_noise=False)
    assert done.complete


def test_a_smaller_cap_no_longer_looks_better_without_end():
    """The stated share has its least value between a cap that cuts much and none."""
    days = daily_energies(20_000, 6)
    shares = {}
    for cap in (3.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, None):
        above = days[days > (cap or np.inf)]
        share = above.size / days.size
        excess = float((above - cap).mean()) if share else 1e-9
        reference = Reference(10.0, max(share, 1e-9), excess)
        terms = SumTerms("1", CLAMP, ("g",), "day", cap_kwh=cap, reference=reference,
                         min_meters=50)  # fmt: skip
        shares[cap] = errors_of(terms)[0].share
    best = min(shares, key=shares.get)
    assert 10 <= best <= 30
    assert shares[5.0] > 1.5 * shares[best]
    assert "that the cap cuts off" in errors_of(replace(terms, cap_kwh=5.0))[0].sentence
