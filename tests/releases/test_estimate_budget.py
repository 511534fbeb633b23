"""How tables share a budget: published shares, the optimum, and no change beyond its length."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushmeter as hm
from hushmeter.errors import InputError
from hushmeter.privacy.sensitivity import Change
from hushmeter.releases.estimate import TableEstimate, _ModelMonth, divide_budget, lengths_of
from hushmeter.releases.labels import (
    CELLS,
    REST,
    VIEWS,
    Cells,
    make_tables,
    model_month,
)

KETTLE = hm.Home([hm.Appliance("kettle", 2100.0, run_s=180.0)], tolerance=20.0)
RUNS = {1: (1, 1, 1, 1), 3: (math.sqrt(3), 3, 3, math.sqrt(3))}
DAY = (math.sqrt(24), 24, 24, math.sqrt(24))
BANDS = ("peak = weekdays 16:00-21:00", "night = 00:00-07:00")
ALL = (*VIEWS, "typical-week", "year", *BANDS, "late = 20:00-24:00")
WATT = Fraction(1)


def fit_of(words, shares, lengths, cells=None):
    """The estimate of tables whose noise has these shares of the budget, for a month by default."""
    month = model_month(3600.0) if cells is None else cells
    variances = np.array(lengths, dtype=float) ** 2 / shares
    tables = make_tables(words, month)
    used = [n for n, table in enumerate(tables) if table.name != CELLS and shares[n]]
    first = variances[0] if tables[0].name == CELLS else math.inf
    return TableEstimate([tables[n] for n in used], [first, *variances[used]], len(month))


def complete_variances(shares, lengths, days=30, hours=24):
    """Variances of a cell, a day, the month and an hour of the day in closed form.

    The normal equations have four eigenspaces: the grand mean, days, hours of the day, the rest.
    """
    cell, day, month, hour = (shares / np.array(lengths, dtype=float) ** 2).T
    by_day, by_hour = cell + hours * day, cell + days * hour
    all_ = by_day + days * hour + days * hours * month
    parts = (days - 1) * (hours - 1) / cell + (days - 1) / by_day + (hours - 1) / by_hour + 1 / all_
    return np.array(
        [
            parts / (days * hours),
            hours * ((days - 1) / by_day + 1 / all_) / days,
            days * hours / all_,
            days * ((hours - 1) / by_hour + 1 / all_) / hours,
        ]
    )


@pytest.mark.parametrize(
    ("words", "shares", "errors"),
    [
        (["hours"], [1.0], [1, 4.90, 5.48, 26.8, 10.5, 14.5, 4.69]),
        (
            [CELLS, "days", "typical-day", "months"],
            [0.784, 0.067, 0.070, 0.080],
            [1.10, 3.12, 3.16, 3.41, 7.39, 7.25, 3.56],
        ),
        (
            [CELLS, "days", "typical-day", "months", *BANDS],
            [0.791, 0.034, 0.039, 0.030, 0.105],
            [1.10, 3.80, 3.63, 3.79, 2.69, 2.72, 3.79],
        ),
    ],
    ids=["hours alone", "views", "views and bands"],
)
def test_published_shares_and_errors(words, shares, errors):
    """Thirty days from 2024-04-01, errors in units of those of independent hours."""
    lengths = np.ones(len(shares))
    found = divide_budget(words, 3600.0, lengths, 1.10)
    np.testing.assert_allclose(found, shares, atol=2e-3)
    fit, month = fit_of(words, found, lengths), model_month(3600.0)
    # Of the first day, the first hour of the day, and that hour on weekdays.
    sums = [
        fit.sum_variances(make_tables([word], month)[0])[0]
        for word in ("days", "typical-day", "months", *BANDS, "typical-week")
    ]
    stated = np.sqrt([fit.cell_variances.mean(), *sums])
    # The published errors have three digits.
    np.testing.assert_allclose(stated, errors, atol=0.02, rtol=2e-3)


@pytest.mark.parametrize(
    ("lengths", "cost", "expected"),
    [
        (RUNS[1], 1.102, (1.102, 0.634, 0.126, 0.573)),
        (RUNS[1], 1.100, (1.100, 0.638, 0.127, 0.577)),
        (RUNS[3], 1.100, (1.100, 0.979, 0.204, 0.521)),
        (DAY, 1.100, (1.100, 1.100, 0.385, 0.385)),
    ],
)
def test_the_errors_against_a_release_of_the_hours_alone(lengths, cost, expected):
    shares = divide_budget(VIEWS, 3600.0, np.array(lengths, dtype=float), cost)
    assert shares.sum() == pytest.approx(1)
    ratios = complete_variances(shares, lengths) / (lengths[0] ** 2 * np.array([1, 24, 720, 30]))
    np.testing.assert_allclose(np.sqrt(ratios), expected, atol=1.0e-3)


def test_published_errors_of_a_weekday_profile():
    """At .757 .031 .095 .028 .090; our shares count every table and every band once."""
    words = (CELLS, "days", "typical-week", "months", *BANDS)
    fit = fit_of(words, np.array([0.757, 0.031, 0.095, 0.028, 0.090]), np.ones(5))
    week = make_tables(["typical-week"], model_month(3600.0))[0]
    assert np.sqrt(fit.sum_variances(week)[0]) == pytest.approx(2.66, abs=0.02)
    ours = divide_budget(words, 3600.0, np.ones(5))
    np.testing.assert_allclose(ours, (0.786, 0.035, 0.037, 0.032, 0.110), atol=2e-3)


def test_tables_without_cells_share_the_budget_too():
    shares = divide_budget(("days", "months", BANDS[0]), 3600.0, np.ones(3))
    assert shares.sum() == pytest.approx(1)
    assert (shares > 0.05).all()
    assert divide_budget(("months",), 3600.0, np.ones(1)).tolist() == [1.0]


def test_the_same_shares_for_hours_written_in_any_order():
    one = divide_budget(("hours", "days", *BANDS), 3600.0, np.ones(3))
    other = divide_budget((CELLS, *BANDS, "days"), 3600.0, np.ones(3))
    np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("cells", [2, 4, 12])
def test_cells_of_half_an_hour_and_less_have_the_shares_of_hours(cells):
    """The noise of the cells of one hour adds up: its width is √cells times that of one."""
    hours = divide_budget(VIEWS, 3600.0, np.array([math.sqrt(cells), 1.0, 1.2, 1.4]))
    found = divide_budget(VIEWS, 3600.0 / cells, np.array([1.0, 1.0, 1.2, 1.4]))
    np.testing.assert_allclose(found, hours, atol=1e-6)


@given(st.floats(1, 30), st.floats(1, 30), st.sampled_from([1.01, 1.1, 1.5, 3.0]))
@settings(max_examples=25)
def test_no_other_shares_are_better(one, other, cost):
    """The optimum against 2000 random divisions of the budget that keep the hourly error."""
    lengths = np.array([1.0, one, other, min(one, other)])
    shares = divide_budget(VIEWS, 3600.0, lengths, cost)
    best = complete_variances(shares, lengths)
    assert best[0] <= cost**2 * (1 + 1e-6)
    rng = np.random.default_rng(0)
    random = rng.dirichlet(np.maximum(40 * shares, 0.3), 2000)
    found = complete_variances(random, lengths).T
    allowed = found[found[:, 0] <= cost**2]
    # A table with less than a hundredth of the budget is left out, which costs about as much.
    assert (np.log(allowed[:, 1:]).sum(axis=1) >= np.log(best[1:]).sum() - 0.05).all()


def purpose_of(words, shares, lengths):
    """Error of a cell, and Σ ln of the mean variances of every table and every named band."""
    month = model_month(3600.0)
    fit = fit_of(words, shares, lengths)
    total = 0.0
    for table in make_tables(words, month):
        if table.name == CELLS:
            continue
        variances = fit.sum_variances(table)
        bands = table.columns.get("band")
        if bands is None:
            total += math.log(variances.mean())
            continue
        total += sum(math.log(variances[bands == b].mean()) for b in set(bands) - {REST})
    return math.sqrt(fit.cell_variances.mean()), total


@pytest.mark.parametrize(
    ("words", "lengths"),
    [
        ((*VIEWS, *BANDS), (1, 1, 1, 1, 1)),
        ((CELLS, "days", "typical-week", "year", *BANDS), (1, 1.2, 1, 1, 1.1)),
        (("days", "typical-day", *BANDS), (1, 1, 1)),
    ],
)
def test_no_other_shares_of_bands_are_better(words, lengths, rng):
    shares = divide_budget(words, 3600.0, np.array(lengths, dtype=float))
    assert (shares > 0.01).all()
    error, best = purpose_of(words, shares, lengths)
    cells = words[0] == CELLS
    assert not cells or error <= 1.1 * (1 + 1e-6)
    kept = 0
    for others in rng.dirichlet(200 * shares, 150):
        found, total = purpose_of(words, others, lengths)
        if not cells or found <= 1.1:
            kept += 1
            assert total >= best - 1e-6
    assert kept > 20


@pytest.mark.parametrize(
    "shares",
    [(0.7, 0.1, 0.05, 0.1, 0.05), (0.8, 0, 0.2, 0, 0), (0.8, 0.1, 0, 0, 0.1), (1, 0, 0, 0, 0)],
)
def test_tables_without_a_share_count_with_the_variances_that_the_others_give_them(shares):
    """The aim of the search against the errors of a release with these shares."""
    words, lengths = (*VIEWS, *BANDS), (1, 1.2, 1.1, 1, 1)
    model = _ModelMonth.of(make_tables(words, model_month(3600.0)), lengths)
    given_ = np.array(shares, dtype=float)
    with np.errstate(divide="ignore"):
        error, total = purpose_of(words, given_, lengths)
    assert model.log_terms(given_) == pytest.approx(total)
    assert math.exp(model.log_cell(given_) / 2) == pytest.approx(error)


def test_a_day_that_may_change_freely_needs_no_table_of_days():
    shares = divide_budget(VIEWS, 3600.0, np.array(DAY))
    assert shares[1] == shares[2] == 0
    assert shares[3] > 0.1


def test_cells_alone_if_no_table_is_worth_its_share():
    long = np.array([1.0, 28.0, 22.0, 22.0])
    assert divide_budget(VIEWS, 3600.0, long).tolist() == [1, 0, 0, 0]
    assert divide_budget(VIEWS, 3600.0, np.ones(4), 1.002).tolist() == [1, 0, 0, 0]


def test_tables_with_the_same_labels_share_their_part_equally():
    """The year of a month is the month itself, until a release is longer."""
    shares = divide_budget(("hours", "days", "months", "year"), 3600.0, np.ones(4))
    assert shares[2] == shares[3] > 0.01
    assert shares.sum() == pytest.approx(1)
    three = divide_budget(("hours", "days", "months"), 3600.0, np.ones(3))
    assert shares[2] + shares[3] == pytest.approx(three[2])


@pytest.mark.parametrize("cost", [1.0, 1.0005, 0.5, -1.0])
def test_hours_cannot_cost_less_than_hours(cost):
    with pytest.raises(InputError, match="hourly_cost must be"):
        divide_budget(VIEWS, 3600.0, np.ones(4), cost)


def test_the_longest_of_several_changes_decides():
    cells = Cells(hm.Trace(np.zeros(24 * 40), 3600.0, "2024-03-01T00:00Z"))
    tables = make_tables(ALL, cells)
    changes = [Change("a", 30_000.0, 600.0, 3600.0), Change("b", 900.0, 90_000.0, 3600.0)]
    each = [lengths_of(tables, [change], WATT) for change in changes]
    np.testing.assert_array_equal(lengths_of(tables, changes, WATT), np.maximum(*each))
    assert (each[0] > each[1])[0]
    assert (each[0] < each[1])[1]
