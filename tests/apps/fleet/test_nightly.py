"""A nightly job of local days releases every row, over every change of the clock."""

import json
import random
import signal
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.apps.fleet.cases import REFERENCE
from tests.apps.fleet.test_crash import Jobs

from hushmeter.apps.fleet import FleetTerms, JobOptions, release_fleet
from hushmeter.apps.fleet.job import errors_of
from hushmeter.apps.fleet.sum_terms import TABLES, SumTerms
from hushmeter.apps.ledger import DayChange, open_ledger
from hushmeter.errors import InputError

ZONES = ("Europe/London", "Europe/Berlin", "Australia/Adelaide", "America/New_York")
INTERVAL = timedelta(minutes=30)


def local_day(day, zone):
    """Starts of the half hours of a civil day, UTC."""
    start, end = (
        datetime(one.year, one.month, one.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)
        for one in (day, day + timedelta(days=1))
    )
    return [start + n * INTERVAL for n in range((end - start) // INTERVAL)]


def write_extract(path, days, zone, meters=("a", "b"), watts=250.0):
    """Write the local days of some meters as one Parquet file."""
    rows = [(meter, time) for meter in meters for day in days for time in local_day(day, zone)]
    path.parent.mkdir(parents=True, exist_ok=True)
    names, times = zip(*rows, strict=True)
    parquet.write_table(
        pa.table(
            {
                "meter": pa.array(names),
                "time": pa.array(times, pa.timestamp("s", tz="UTC")),
                "value": pa.array([watts] * len(rows)),
                "unit": pa.array(["W"] * len(rows)),
                "interval_s": pa.array([1800] * len(rows), pa.int32()),
                "group": pa.array(["all"] * len(rows)),
            }
        ),
        path,
    )
    return len(rows)


def around_changes(year, zone):
    """The days of two weeks around every change of the clock of a year."""
    days = [date(year, 1, 1) + timedelta(days=n) for n in range(366)]
    odd = [n for n, day in enumerate(days) if len(local_day(day, zone)) != 48]
    return [day for n, day in enumerate(days) if any(abs(n - one) <= 2 for one in odd)]


class Nights:
    """Nightly jobs that are killed at random points, and resumed until they end."""

    def __init__(self, jobs, url, output, zone):
        self._jobs, self._url, self._output = jobs, url, output
        self._chance, self._calls = random.Random(zone), 0
        self.kills = 0

    def run(self, folder, number):
        """The manifest of one night."""
        output = self._output / str(number)
        order = {"source": str(folder), "output": str(output), "ledger": self._url}
        order["interval_s"] = 1800
        status = None
        if number == 0:
            self._jobs.warm(order)
            status = 0
        while status != 0:
            kill = {}
            if self._calls and self._chance.random() < 0.6:
                kill = {"kill_at": self._chance.randrange(1, self._calls)}
            status, calls = self._jobs.run({**order, "count": True, **kill})
            assert status in (0, -signal.SIGKILL)
            self._calls = self._calls or calls
            self.kills += status != 0
        return json.loads((output / "manifest.json").read_text())


@pytest.fixture(scope="module")
def jobs():
    running = Jobs()
    yield running
    running.close()


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    "whole_year", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["changes", "year"]
)
def test_every_row_of_a_nightly_job_is_released(jobs, tmp_path, zone, whole_year):
    """Jobs are killed, files come late, and files that come again are refused with a reason."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    open_ledger(url, create=DayChange.within(0, 15_000, zone)).close()
    terms = FleetTerms(epsilon="0.5", clamp=(0, 12_000), interval_s=1800)
    nights = [date(2024, 1, 1) + timedelta(days=n) for n in range(366)]
    if not whole_year:
        nights = around_changes(2024, zone)
    runs = Nights(jobs, url, tmp_path / "out", zone)
    rows_in = rows_out = refused = 0
    owed, waiting, paid = Counter(), [], Counter()
    for number, day in enumerate(nights):
        if number % 7 == 3 and day != nights[-1]:
            waiting.append(day)  # The extract of this night is late.
            continue
        folder = tmp_path / "in" / str(number)
        for late in (*waiting, day):
            rows_in += write_extract(folder / f"{late}.parquet", [late], zone)
            paid.update((meter, late.isoformat()) for meter in "ab")
        waiting = []
        again = nights[number - 2] if number % 5 == 4 else None
        if again is not None and ("a", again.isoformat()) in paid:
            count = write_extract(folder / f"again-{again}.parquet", [again], zone, watts=300.0)
            rows_in, owed["rows"] = rows_in + count, owed["rows"] + count
        else:
            again = None
        manifest = runs.run(folder, number)
        rows_out += manifest["released_rows"]
        refused += manifest["rows"] - manifest["released_rows"]
        reasons = manifest["quarantine"]["reasons"]
        assert bool(reasons) == (again is not None)
        assert all("already released" in reason for reason in reasons)
    assert rows_in == rows_out + refused
    assert refused == owed["rows"]
    assert runs.kills > 0
    corrected = tmp_path / "corrected"
    more = write_extract(corrected / "fixed.parquet", nights[:2], zone, watts=260.0)
    done = release_fleet(
        corrected, tmp_path / "again", terms, JobOptions(url, correct=True, accept_noise=True)
    )
    assert done.manifest["released_rows"] == more
    print(f"{zone}: {runs.kills} kills; {rows_in} = {rows_out} + {refused} rows")  # noqa: T201
    with open_ledger(url) as ledger:
        price = done.job.price["micro_epsilon"]
        history = {meter: ledger.history(meter) for meter in "ab"}
        assert ledger.verify() == []
    for meter in "ab":
        spent = Counter(row["period"] for row in history[meter])
        wanted = Counter(day for name, day in paid if name == meter)
        wanted.update(day.isoformat() for day in nights[:2])
        assert spent == wanted
        assert {row["micro_epsilon"] for row in history[meter]} == {price}


def test_a_ledger_of_utc_days_leaves_out_an_hour_of_every_local_day(tmp_path):
    """Why the zone belongs to the ledger: the failure that a stated zone prevents."""
    url, zone = f"sqlite:///{tmp_path}/ledger.db", "Europe/London"
    open_ledger(url, create=DayChange.within(0, 15_000)).close()
    terms, left = FleetTerms(epsilon="1", clamp=(0, 15_000), interval_s=1800), []
    for day in (date(2024, 7, 1), date(2024, 7, 2)):
        write_extract(tmp_path / str(day) / "m.parquet", [day], zone)
        done = release_fleet(
            tmp_path / str(day), tmp_path / f"out{day}", terms, JobOptions(url, accept_noise=True)
        )
        left.append(done.manifest["rows"] - done.manifest["released_rows"])
    assert left == [0, 2 * 2]


@pytest.mark.parametrize("zone", ZONES)
def test_daily_sums_are_those_of_local_days(tmp_path, zone):
    """Every day of the week of a change of the clock is one bin with all its readings."""
    days = around_changes(2024, zone)[:5]
    url = f"sqlite:///{tmp_path}/ledger.db"
    open_ledger(url, create=DayChange.within(0, 15_000, zone)).close()
    count = write_extract(tmp_path / "in" / "m.parquet", days, zone)
    terms = SumTerms(
        "20", (0, 15_000), ("group",), "day", cap_kwh=20.0, reference=REFERENCE, interval_s=1800
    )
    done = release_fleet(
        tmp_path / "in", tmp_path / "out", terms, JobOptions(url, accept_noise=True)
    )
    sums, peaks = done.tables["sums"], done.tables["peaks"]
    assert done.complete
    assert sums["readings"].tolist() == [2 * len(local_day(day, zone)) for day in days]
    assert sums["readings"].sum() == count
    assert sums["start"].tolist() == [local_day(day, zone)[0] for day in days]
    error = sums["energy_se_kwh"].iloc[0]
    assert (sums["energy_kwh"] - sums["readings"] * 0.125).abs().max() < 20 * error
    # The load is 0.5 kW on a day of 23 and on a day of 25 hours. Bounds at 95 % confidence that are
    # four times as wide hold but for once in a million runs: ln(5/1e-7) < 4·ln(5/0.05).
    low, high = peaks["peak_low_kw"].iloc[0], peaks["peak_high_kw"].iloc[0]
    assert abs((low + high) / 2 - 0.5) < 2 * (high - low)


def test_noise_above_the_stated_load_needs_consent(tmp_path):
    """The dry run states the error of every table; a useless release is refused in time."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    open_ledger(url, create=DayChange.within(0, 15_000)).close()
    write_extract(tmp_path / "in" / "m.parquet", [date(2024, 7, 1)], "UTC")
    terms = SumTerms("1", (0, 15_000), ("group",), "hour", tables=TABLES, interval_s=1800)
    options = JobOptions(url, load_w=1000.0)
    sums, shape, quantiles = errors_of(terms, 1000.0)
    assert sums.error == pytest.approx(terms.promise.error("sums") * 0.5 / 1000)
    assert sums.share == pytest.approx(sums.error)  # A load of 1 kW is 1 kWh in an hour.
    assert sums.share > 1
    assert shape.share is not None
    assert (quantiles.unit, quantiles.share) == ("meters", None)
    with pytest.raises(InputError, match=r"% of the stated load.*`accept_noise`"):
        release_fleet(tmp_path / "in", tmp_path / "out", terms, options)
    with open_ledger(url) as ledger:
        assert list(ledger.rows()) == []
    tried = replace(options, dry_run=True)
    assert release_fleet(tmp_path / "in", tmp_path / "out", terms, tried).complete
    accepted = replace(options, accept_noise=True)
    assert release_fleet(tmp_path / "in", tmp_path / "out", terms, accepted).complete
