"""Wishes of a household: neighbours give the same free tables, and no attacker beats the odds."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.test_commands import run

import hushmeter as hm
from hushmeter.appliance import catalogue
from hushmeter.clock import local_times
from hushmeter.errors import DataError, InputError
from hushmeter.privacy.units import BETWEEN_DAYS, LONGEST_DAY_S, WITHIN_DAYS
from hushmeter.releases.purposes import WISHES, Order, parse_wish
from hushmeter.trace import Metering

WHEN, WHICH, AWAY = "when we get up", "which days we are away", "that we are away"
ZONES = ("UTC", "Europe/Berlin", "America/New_York")


def load(days, interval_s=1800.0, start="2024-03-20T00:00Z", seed=0, keep=1.0):
    """Readings of some days in whole watts, over a change of the clock and of the month."""
    rng = np.random.default_rng(seed)
    count = round(days * 86_400 / interval_s)
    steps = np.flatnonzero(rng.random(count) < keep) if keep < 1 else None
    size = count if steps is None else steps.size
    return hm.Trace(np.rint(rng.gamma(1.0, 300.0, size)), interval_s, start, steps=steps)


def civil_days(trace, zone):
    return local_times(trace.times, zone).astype("datetime64[D]")


def moved_within_days(trace, zone, rng):
    """The readings of every civil day in another order, and watts moved between some of them."""
    days, readings = civil_days(trace, zone), trace.readings.copy()
    for day in np.unique(days):
        rows = rng.permutation(np.flatnonzero(days == day))
        readings[np.sort(rows)] = readings[rows]
        moved = np.floor(readings[rows[: rows.size // 2]] * rng.random())
        other = rows[rows.size // 2 : 2 * (rows.size // 2)]
        readings[rows[: moved.size]] -= moved
        readings[other] += moved
    return trace.replace_readings(readings)


def exchanged_days(trace, zone, rng):
    """Complete days of 24 hours of one month in another order, with the same clock."""
    days, readings = civil_days(trace, zone), trace.readings.copy()
    names, counts = np.unique(days, return_counts=True)
    full = names[counts == round(86_400 / trace.interval_s)]
    for month in np.unique(full.astype("datetime64[M]")):
        own = full[full.astype("datetime64[M]") == month]
        for one, other in zip(own, rng.permutation(own), strict=True):
            readings[days == one] = trace.readings[days == other]
    return trace.replace_readings(readings)


NEIGHBOUR = {WHEN: moved_within_days, "evenings": moved_within_days, WHICH: exchanged_days}


# Words ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "way"),
    [
        ("when we get up", WITHIN_DAYS),
        ("When I go to bed", WITHIN_DAYS),
        ("evenings", WITHIN_DAYS),
        ("which days we are away", BETWEEN_DAYS),
        ("on which days I was away", BETWEEN_DAYS),
        ("when we are away", BETWEEN_DAYS),
    ],
)
def test_words_about_times(words, way):
    assert parse_wish(words) == Order(words, way)


def test_a_day_at_home_has_the_numbers_of_the_catalogue_or_typed_ones():
    family = catalogue.households["family"]
    plain = parse_wish(AWAY)
    assert (plain.power, plain.energy_wh) == (family.power_w.high, family.day_wh.high)
    assert plain.source_of("power") == "catalogue"
    assert parse_wish(f"{AWAY} one person").energy_wh == 7000
    typed = parse_wish("that we are away 3 kW 5 kWh 2 days")
    assert (typed.power, typed.energy_wh, typed.run_s) == (3000, 10_000, 2 * LONGEST_DAY_S)
    assert {typed.source_of(name) for name in ("power", "energy_wh", "run_s")} == {"typed"}
    assert parse_wish("kettle") is None


def test_a_small_typed_power_limits_the_energy_of_a_day_at_home():
    """100 W take 2.5 kWh in the 25 hours of the longest day, and not the 7 kWh of one person."""
    for days in (1, 3):
        small = parse_wish(f"{AWAY} one person 100 W {days} days")
        assert small.protected_energy_wh == 2500 * days
        assert small.run_s == days * LONGEST_DAY_S


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({"hide": "who we are"}, "no useful release of a single home hides who you are"),
        ({"hide": WHEN, "purpose": "hour"}, "share days or months"),
        ({"hide": WHICH, "purpose": "day"}, "share the typical day or months"),
        ({"hide": f"{WHEN}, {WHICH}", "purpose": "day"}, "share months"),
        ({"hide": WHEN, "clamp": (0, 9000)}, "leave out clamp"),
        ({"hide": WHEN, "every": "1h"}, "leave out every"),
        ({"hide": WHEN, "span": "run"}, "names none"),
        ({"hide": f"{AWAY} 30 min"}, "your own numbers"),
        ({"hide": f"{AWAY} crowd"}, "no household named"),
        ({"hide": "car charger"}, 'state it, such as "car charger 7.2 kW"'),
        ({"hide": "kettle, heat pump 40 min"}, "between 500 W and 4.5 kW"),
    ],
)
def test_what_no_useful_release_hides_is_refused(request_, sentence):
    with pytest.raises(InputError, match=sentence):
        hm.Request(**request_)


@pytest.mark.parametrize("table", ["hours", "typical-week", "typical-day", "peak = 16:00-21:00"])
def test_a_table_that_shows_the_times_is_refused(table):
    with pytest.raises(InputError, match="hides at which times of the day"):
        hm.Request(hide=WHEN, tables=[table]).resolve(hm.metered(load(40)))


def test_whole_days_of_the_week_are_free():
    words = ("days", "weekend = weekends 00:00-24:00")
    promise = hm.Request(hide=WHEN, tables=words).resolve(hm.metered(load(40), "Europe/Berlin"))
    assert promise.exact
    assert promise.odds == 0.5


@pytest.mark.parametrize(
    "metering",
    [Metering(1.0, stretch=1.1), Metering(1.0, copies=2), Metering(0, 2.0, registers=2)],
)
def test_a_meter_whose_sums_depend_on_the_order_is_refused(metering):
    with pytest.raises(InputError, match="depend on when electricity is used"):
        hm.Request(hide=WHEN).resolve(hm.Metered(1800.0, metering, readings=100))


# Free tables ------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([WHEN, WHICH, f"{WHEN}, {WHICH}"]),
    st.sampled_from(ZONES),
    st.sampled_from([900.0, 1800.0, 3600.0]),
    st.integers(0, 10**6),
)
def test_neighbours_have_the_same_sums(wish, zone, interval_s, seed):
    one, rng = load(50, interval_s, seed=seed), np.random.default_rng(seed)
    other = one
    for word in wish.split(", "):
        other = NEIGHBOUR[word](other, zone, rng)
    promise = hm.Request(hide=wish).resolve(hm.metered(one, zone))
    assert promise.exact
    assert (one.readings != other.readings).any()
    for first, second in zip(promise.exact_sums(one), promise.exact_sums(other), strict=True):
        np.testing.assert_array_equal(first, second)


ODD_FILES = [
    # A file that begins at :07, Kathmandu with half hours, Kolkata with hours of UTC
    ("UTC", 900.0, "2024-03-20T00:07Z"),
    ("Asia/Kathmandu", 1800.0, "2024-03-20T00:00Z"),
    ("Asia/Kolkata", 3600.0, "2024-03-20T00:00Z"),
]


@pytest.mark.parametrize(("zone", "interval_s", "start"), ODD_FILES)
@pytest.mark.parametrize("wish", [WHEN, WHICH])
def test_readings_across_midnight_belong_to_no_day(wish, zone, interval_s, start):
    trace = load(70, interval_s, start)
    with pytest.raises(DataError, match=f"of {zone} of which every reading is in the file"):
        hm.Request(hide=wish).resolve(hm.metered(trace, zone))
    # A promise for times that are not known yet does not hold for them either.
    promise = hm.Request(hide=wish).resolve(hm.Metered(interval_s, zone="UTC"))
    if zone == "UTC":
        with pytest.raises(DataError, match="none lies across a midnight"):
            promise.release(trace, rng=0)


@pytest.mark.parametrize(
    ("zone", "interval_s", "start"),
    [("Asia/Kolkata", 3600.0, "2024-03-19T18:30Z"), ("Asia/Kolkata", 1200.0, "2024-03-19T18:30Z")],
)
def test_readings_that_meet_midnight_make_days(zone, interval_s, start):
    """Hours of the clock of Kolkata begin at half past an hour of UTC."""
    promise = hm.Request(hide=WHEN).resolve(hm.metered(load(9, interval_s, start), zone))
    assert [entry.table.size for entry in promise.tables] == [9, 1]
    assert promise.cells.left_out == 0


def test_nothing_smaller_than_a_whole_month_shows_days():
    """A file from 31 January on: that day is not January's typical day."""
    trace = load(40, start="2024-01-31T00:00Z")
    done = hm.Request(hide=WHICH).resolve(hm.metered(trace)).release(trace, rng=0)
    assert done.view("months").labels["month"].tolist() == ["2024-02"]
    assert done.promise.cells.left_out == 2
    sentence = done.promise.sentences[1]
    assert "Incomplete months of the file, which are left out: 2." in sentence
    with pytest.raises(DataError, match="needs a civil month of UTC"):
        hm.Request(hide=WHICH).resolve(hm.metered(trace[:1400]))


def test_the_hour_that_the_clock_repeats_is_not_the_rest_of_a_month():
    """The month less its typical day would otherwise be one hour of one night."""
    trace = load(40, 900.0, "2024-09-28T00:00Z")
    done = hm.Request(hide=WHICH).resolve(hm.metered(trace, "Europe/Berlin")).release(trace, rng=0)
    profile, months = done.view("typical-day"), done.view("months")
    assert profile.labels["cells"].tolist() == [31, 31, 32, *[31] * 21]
    energy = (profile.values * profile.labels["cells"]).sum() / 1000
    assert energy == pytest.approx(months.values[0], abs=1e-6)


def test_thirds_of_a_watt_add_up_exactly():
    """Milliwatt-hours of 27 s are 0.1333 W: 3200 of them, or a third as many that are three."""
    one = np.full(3200, 0.001)
    other = np.where(np.arange(3200) % 3 == 0, 0.003, 0.0)
    other[-2:] = 0.001
    sums = []
    for wh in (one, other):
        trace = hm.Trace(wh * 3600 / 27, 27.0, "2024-01-01T00:00Z")
        promise = hm.Request(hide=WHEN).resolve(hm.metered(trace))
        sums.append(promise.exact_sums(trace)[0].tolist())
    assert sums[0] == sums[1]


def test_a_wish_about_absence_says_that_gaps_are_seen():
    trace = load(31, start="2024-03-01T00:00Z")
    for wish, said in ((WHICH, True), (AWAY, True), (WHEN, False), ("kettle", False)):
        done = hm.Request(hide=wish).resolve(hm.metered(trace)).release(trace, rng=0)
        stays = "Days without readings stay visible."
        assert (stays in done.promise.sentences[1]) == said
        assert (stays in str(done.receipt)) == said


# What the meter rounds --------------------------------------------------------------------------


def metered_with(watts, metering, interval_s, start):
    """The readings that a meter of this kind makes of a load in parts of a watt."""
    if metering.register_step_w:
        counter = np.append(0.0, np.cumsum(watts)) / metering.register_step_w
        readings = np.diff(np.floor(counter + 1e-9)) * metering.register_step_w
    else:
        readings = np.rint(watts / metering.resolution_w) * metering.resolution_w
    return hm.Trace(readings, interval_s, start, metering=metering)


@pytest.mark.parametrize("metering", [Metering(7.0), Metering(0.0, 7.0)])
@pytest.mark.parametrize("wish", [WHEN, WHICH, f"{WHEN}, {WHICH}"])
def test_rounding_moves_no_table_further_than_the_promise(wish, metering):
    rng = np.random.default_rng(3)
    for seed in range(30):
        zone = ZONES[seed % 3]
        true = load(44, seed=seed)
        true = true.replace_readings(true.readings + 1.0)
        other = true
        for word in wish.split(", "):
            other = NEIGHBOUR[word](other, zone, rng)
        pair = [metered_with(t.readings, metering, 1800.0, t.start) for t in (true, other)]
        promise = hm.Request(hide=wish).resolve(hm.metered(pair[0], zone))
        sums = [promise.exact_sums(one) for one in pair]
        moved = [np.linalg.norm(a - b) for a, b in zip(*sums, strict=True)]
        assert (np.array(moved) <= promise.lengths).all()


def test_a_register_keeps_the_sums_of_days_and_rounding_those_of_exchanged_days():
    register, rounding = Metering(0.0, 2.0), Metering(2.0)
    for wish, free, noisy in ((WHEN, register, rounding), (WHICH, rounding, register)):
        facts = [hm.Metered(1800.0, m, readings=2112, times=load(44)) for m in (free, noisy)]
        exact, covered = (hm.Request(hide=wish).resolve(one) for one in facts)
        assert exact.exact
        assert not covered.exact
        assert covered.odds <= 0.6


def test_the_noise_for_rounding_is_that_of_the_largest_move():
    """By hand: 24 hours of two readings, each rounded to 2 W, move a day by 48 W of an hour."""
    trace = load(30, start="2024-04-01T00:00Z").replace_readings(np.zeros(1440))
    facts = hm.Metered(1800.0, Metering(2.0), readings=1440, times=trace)
    promise = hm.Request(hide=WHEN, tables=["days"]).resolve(facts)
    steps = math.ceil(48 / float(promise.grid)) + 1
    assert promise.lengths.tolist() == pytest.approx([math.sqrt(30) * steps])


# Attackers --------------------------------------------------------------------------------------

ATTACKED = [
    (WHEN, Metering(50.0), ()),
    (AWAY, Metering(), ()),
    ("that we are away 3 kW 5 kWh 3 days", Metering(), ()),
    ("kettle", Metering(), ("views",)),
    pytest.param(WHICH, Metering(0.0, 50.0), (), marks=pytest.mark.slow),
    pytest.param(
        "that we are away 3 kW 5 kWh",
        Metering(),
        ("typical-day", "months"),
        marks=pytest.mark.slow,
    ),
    pytest.param(f"{WHEN}, kettle", Metering(), (), marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("wish", "metering", "tables"), ATTACKED)
def test_the_likelihood_ratio_does_not_beat_the_odds(wish, metering, tables):
    """The attacker knows both files and the noise, and guesses which of them was released."""
    rng, start = np.random.default_rng(5), "2024-04-01T00:00Z"
    true = load(30, start=start, seed=4).replace_readings(np.full(1440, 400.0))
    request = hm.Request(hide=wish, tables=tables)
    if wish in (WHEN, WHICH):
        shape = np.where(np.arange(1440) % 48 < 24, 24.9, 25.1) + 100
        one, other = true.replace_readings(shape), true.replace_readings(np.full(1440, 125.0))
        if wish == WHICH:
            days = rng.permutation(30)
            shape = (np.arange(1440).reshape(30, 48) % 97).astype(float)
            one, other = (true.replace_readings(s.ravel()) for s in (shape, shape[days]))
        pair = [metered_with(t.readings, metering, 1800.0, start) for t in (one, other)]
    else:
        readings, use = true.readings.copy(), request.member
        length = math.ceil(use.protected_run_s / 1800)
        energy = use.protected_energy_wh * 2 / length
        readings[96 : 96 + length] += min(energy, use.protected_power)
        pair = [true, true.replace_readings(readings)]
    promise = request.resolve(hm.metered(pair[0]))
    sums = [promise.exact_sums(one) for one in pair]
    sigmas = [entry.noise.scale / float(promise.grid) for entry in promise.tables]
    apart = [b - a for a, b in zip(*sums, strict=True)]
    right, count = 0, 3000
    for number in range(count):
        truth = int(rng.integers(2))
        done = promise.release(pair[truth], rng=number)
        steps = [one / float(promise.grid) for one in done.sums]
        score = sum(
            float((d * (y - (a + b) / 2)).sum()) / sigma**2
            for d, y, a, b, sigma in zip(apart, steps, *sums, sigmas, strict=True)
        )
        right += (score > 0) == truth
    z = (right / count - promise.odds) / math.sqrt(promise.odds * (1 - promise.odds) / count)
    assert z < 4.5
    assert promise.odds <= 0.6
    if wish == AWAY:
        # The whole energy within the day moves the month as far as the promise counts.
        assert z > -4.5


# What a promise states --------------------------------------------------------------------------


def test_the_month_of_a_day_at_home_is_that_of_the_closed_form():
    """σ = E/μ with μ = 2·Φ⁻¹(0.6), up to the grid."""
    from statistics import NormalDist

    promise = hm.Request(hide="that we are away 3 kW 5 kWh").resolve(hm.Metered(1800.0))
    wanted = 5 / (2 * NormalDist().inv_cdf(0.6))
    assert wanted == pytest.approx(9.87, abs=0.01)
    assert wanted <= promise.errors.month_kwh < 1.02 * wanted


@pytest.mark.parametrize("wish", [*WISHES[:-1], f"{WHEN}, kettle", f"{WHICH}, {AWAY}"])
def test_a_wish_is_released_verified_and_read_again(tmp_path, wish):
    # The month of February is whole, the others are not.
    trace = load(70, start="2024-01-05T00:00Z")
    trace = trace.select(np.delete(np.arange(len(trace)), [7, 600, 3200]))
    promise = hm.Request(hide=wish).resolve(hm.metered(trace, "Europe/Berlin"))
    done = promise.release(trace)
    done.save(tmp_path / "out")
    assert hm.verify(tmp_path / "out").problems == ()
    again = hm.read_release(tmp_path / "out")
    for name in done.view_names:
        np.testing.assert_allclose(again.view(name).values, done.view(name).values)
    assert [g.odds for g in again.promise.guesses] == [g.odds for g in promise.guesses]
    assert promise.sentences[0].startswith("Hidden: ")


def test_days_are_civil_days_and_exact():
    trace = load(20, start="2024-03-25T12:00Z")
    done = hm.Request(hide=WHEN).resolve(hm.metered(trace, "Europe/Berlin")).release(trace, rng=0)
    days = civil_days(trace, "Europe/Berlin")
    # The first and the last day of the file are not complete.
    wanted = [trace.readings[days == day].sum() / 2000 for day in np.unique(days)[1:-1]]
    np.testing.assert_allclose(done.view("days").values, wanted, atol=1e-6)
    months = done.view("months")
    assert months.labels["days"].tolist() == [6, 13]
    np.testing.assert_allclose(months.values, [sum(wanted[:6]), sum(wanted[6:])], atol=1e-6)
    assert "Incomplete days of the file, which are left out: 2." in done.promise.sentences[1]
    assert (done.view("days").errors == 0).all()
    assert done.promise.grid == Fraction(1, 1000)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([*WISHES[:-1], "kettle", "oven, television", f"evenings, {AWAY} 3 kW 5 kWh"]),
    st.sampled_from([0.55, 0.6, 0.8]),
    st.sampled_from([None, ("views",)]),
    st.sampled_from([None, "day", "run"]),
)
def test_all_texts_state_the_same_odds(wish, odds, tables, span):
    """The sentences, `explain` and the receipt agree, and a day of usual use is never left out."""
    appliances = wish in ("kettle", "oven, television")
    given_ = {"tables": tables or (), "span": span} if appliances else {}
    trace = load(31, 3600.0, "2024-03-01T00:00Z")
    promise = hm.Request(hide=wish, odds=odds, **given_).resolve(hm.metered(trace))
    done = promise.release(trace, rng=0)
    receipt = done.receipt
    stated = [(one["about"], one["odds"]) for one in receipt.guesses]
    assert stated == [(guess.about, guess.odds) for guess in promise.guesses]
    names = [guess.name for guess in promise.guesses]
    assert "day" in names or names == ["order"]
    assert promise.guesses[0].odds == promise.odds == receipt.odds
    for guess in promise.guesses:
        sentence = f"right {guess.text} times out of 100 about {guess.about}."
        for texts in (hm.explain(promise), hm.explain(receipt), hm.explain(done)):
            assert sum(sentence in text for text in texts) == 1
        row = f"{guess.text.replace('over ', '>'):>5}  {guess.about}"
        assert row in str(receipt)
    if promise.unit.changes:
        assert f"{promise.guesses[0].text} times out of 100" in promise.sentences[1]


# The command ------------------------------------------------------------------------------------


def test_a_release_never_replaces_its_own_input(tmp_path):
    file = tmp_path / "meter.csv"
    hm.write_meter(file, load(3))
    before = file.read_bytes()
    for options in ((), ("--force",)):
        said = run("release", file, "--hide", "kettle", "-o", file, *options, expect=2).stderr
        assert "your only copy" in said
    inside = run("release", file, "--hide", "kettle", "-o", tmp_path, "--force", expect=2).stderr
    assert "your only copy" in inside
    assert file.read_bytes() == before


def test_a_release_is_released_again_only_on_request(tmp_path):
    hm.write_meter(tmp_path / "meter.csv", load(3))
    run("release", tmp_path / "meter.csv", "--hide", "kettle", "-o", tmp_path / "a", "--json")
    hours = tmp_path / "hours.csv"
    run("release", tmp_path / "meter.csv", "--hide", "kettle", "-o", hours, "--json")
    assert {path.name for path in (tmp_path / "a").iterdir()} == {
        "hours.csv", "days.csv", "months.csv", "typical-day.csv", "register.csv", "receipt.json",
    }  # fmt: skip
    again = ("release", hours, "--hide", "kettle", "-o", tmp_path / "b", "--json")
    assert "is a release already" in run(*again, expect=1).stderr
    run(*again, "--again")
    assert (tmp_path / "b" / "receipt.json").exists()
