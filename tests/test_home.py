from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hushmeter as hm
from hushmeter import synth
from hushmeter.appliance import NUMBERS, PUBLIC_STEPS, SOURCES, round_up_to_public_step
from hushmeter.home import LearntFrom

WATTS = st.floats(0.5, 20_000, allow_nan=False)
NAMES = st.text(min_size=1, max_size=20).filter(lambda name: name.strip() != "")


@st.composite
def homes(draw):
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    habit = st.none() | st.floats(0.1, 1e5)
    appliances = []
    for name in names:
        high, run_s = draw(st.none() | WATTS), draw(habit)
        appliances.append(
            hm.Appliance(
                name,
                draw(WATTS),
                draw(st.lists(WATTS, max_size=3).map(tuple)),
                run_s,
                draw(habit),
                high=high,
                max_power=draw(st.none() | st.floats(high or 1.0, 50_000)),
                run_high_s=draw(st.none() | st.floats(run_s or 1.0, 1e6)),
                energy_wh=draw(habit),
                use_s_per_day=draw(st.none() | st.floats(1.0, 86_400)),
                source=draw(st.sampled_from(SOURCES)),
                typed=draw(st.sets(st.sampled_from(NUMBERS))),
            )
        )
    span = LearntFrom("0f" * 32, "2024-01-01T00:00:00Z", "2024-01-31T23:59:54Z")
    return hm.Home(
        appliances,
        draw(st.floats(0.1, 50)),
        draw(st.floats(0, 500)),
        draw(NAMES),
        draw(st.none() | st.just(span)),
        draw(st.sampled_from([(), ("tolerance",)])),
    )


@given(homes())
def test_saving_and_reading_gives_the_same_home(tmp_path, home):
    path = tmp_path / "home.toml"
    home.save(path, force=True)
    assert hm.read_home(path) == home


def test_the_public_example():
    home = hm.Home([hm.Appliance("kettle", 2000.0), hm.Appliance("fridge", 120.0)], tolerance=20.0)
    assert home.names == ("kettle", "fridge")
    assert home.powers.tolist() == [2000.0, 120.0]
    assert home.tolerance == 20.0
    assert len(home) == 2
    assert home.index("fridge") == 1
    assert home.subset(["fridge"]).names == ("fridge",)
    with pytest.raises(ValueError, match="read-only"):
        home.powers[0] = 1.0


def test_levels_give_the_mean_power():
    washer = hm.Appliance("washer", levels=[2000.0, 200.0])
    assert washer.power == 1100.0
    assert washer.on_levels == (200.0, 2000.0)
    assert hm.Appliance("kettle", 2000.0).on_levels == (2000.0,)


def test_the_protected_power_is_the_upper_one_where_it_is_known():
    washer = hm.Appliance("washer", levels=[2000.0, 200.0])
    assert washer.protected_power == 2000.0
    assert hm.Appliance("washer", levels=[2000.0], high=2650).protected_power == 2650.0
    kettle = hm.Appliance("kettle", 2100.0, run_s=180.0, max_power=9000.0)
    assert (kettle.protected_power, kettle.protected_run_s) == (2100.0, 180.0)
    assert hm.Appliance("kettle", 2100.0, run_s=180.0, run_high_s=400.0).protected_run_s == 400.0


@given(st.floats(1e-6, 1e9))
def test_learnt_numbers_are_rounded_up_to_public_steps(value):
    rounded = round_up_to_public_step(value)
    assert value <= rounded < 1.28 * value
    digits = float(f"{rounded:e}".split("e")[0])
    assert digits in PUBLIC_STEPS
    assert round_up_to_public_step(rounded) == rounded


def test_only_learnt_numbers_are_rounded():
    numbers = {"power": 2087.0, "run_s": 171.0, "energy_wh": 97.0, "use_s_per_day": 81_000.0}
    typed = hm.Appliance("kettle", **numbers)
    learnt = hm.Appliance("kettle", **numbers, source="learnt")
    assert (typed.protected_power, typed.protected_run_s) == (2087.0, 171.0)
    assert (typed.protected_energy_wh, typed.protected_use_s_per_day) == (97.0, 81_000.0)
    assert (learnt.protected_power, learnt.protected_run_s) == (2500.0, 200.0)
    assert (learnt.protected_energy_wh, learnt.protected_use_s_per_day) == (100.0, 86_400.0)
    assert learnt.power == 2087.0
    span = LearntFrom("0f" * 32, "2024-01-01T00:00:00Z", "2024-01-31T23:59:54Z")
    assert hm.Home([learnt], 11.0, learnt_from=span).protected_tolerance == 12.5
    assert hm.Home([learnt], 11.0).protected_tolerance == 11.0
    assert hm.Home([learnt], 11.0, learnt_from=span).subset(["kettle"]).learnt_from == span


def test_a_number_that_was_typed_into_a_learnt_appliance_is_not_rounded():
    numbers = {"high": 2013.0, "run_s": 171.0, "energy_wh": 93.0, "use_s_per_day": 1111.0}
    learnt = hm.Appliance("kettle", 1900.0, source="learnt", typed=["run_s"], **numbers)
    assert learnt.protected_run_s == 171.0
    assert learnt.protected_power == 2500.0
    assert learnt.protected_energy_wh == 100.0
    assert [learnt.source_of(name) for name in ("run_s", "high")] == ["typed", "learnt"]
    # What is marked must be the number that is used: the mean power is not, nor is a longest run.
    assert (
        hm.Appliance("a", 1900.0, high=2013.0, source="learnt", typed=["power"]).protected_power
        == 2500.0
    )
    longest = hm.Appliance("a", 1.0, run_s=90.0, run_high_s=171.0, source="learnt", typed=["run_s"])
    assert longest.protected_run_s == 200.0
    days = LearntFrom("0f" * 32, "2024-01-01T00:00:00Z", "2024-01-31T23:59:54Z")
    assert hm.Home([learnt], 17.0, learnt_from=days).protected_tolerance == 20.0
    assert hm.Home([learnt], 17.0, learnt_from=days, typed=["tolerance"]).protected_tolerance == 17


def test_days_that_were_learnt_from_are_recognised():
    span = LearntFrom("0f" * 32, "2024-01-02T00:00:00Z", "2024-01-02T23:00:00Z")

    def day(number):
        return hm.Trace(np.zeros(24), 3600.0, f"2024-01-0{number}T00:00Z")

    assert [span.overlaps(day(number)) for number in (1, 2, 3)] == [False, True, False]
    assert span.overlaps(hm.Trace([0.0], 3600.0, "2024-01-02T23:00Z"))


def test_duty_is_the_share_of_the_day():
    assert hm.Appliance("kettle", 2000.0, run_s=180, runs_per_day=8).duty == pytest.approx(1 / 60)
    assert hm.Appliance("kettle", 2000.0).duty is None
    assert hm.Appliance("fridge", 90.0, run_s=86_400, runs_per_day=3).duty == 1.0


def test_an_existing_file_is_kept(tmp_path):
    path = tmp_path / "home.toml"
    path.write_text("precious")
    with pytest.raises(hm.errors.DataError, match="exists"):
        synth.ready_home("evening").save(path)
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: hm.Appliance("", 1.0), "an appliance needs a name"),
        (lambda: hm.Appliance("x"), "x needs a power or levels"),
        (lambda: hm.Appliance("x", -5.0), "power of x must be positive and finite, got -5.0."),
        (lambda: hm.Appliance("x", float("nan")), "power of x must be positive and finite"),
        (lambda: hm.Appliance("x", True), "power of x must be a number, got True."),
        (lambda: hm.Appliance("x", 5.0, levels=[0.0]), "a level of x must be positive"),
        (lambda: hm.Appliance("x", 5.0, run_s=0.0), "run_s of x must be positive"),
        (lambda: hm.Appliance("x", 5.0, high=0.0), "high of x must be positive"),
        (
            lambda: hm.Appliance("x", 5.0, high=9, max_power=8),
            "max_power of x .8. must be at least",
        ),
        (lambda: hm.Appliance("x", 5.0, run_s=9, run_high_s=8), "run_high_s of x .8. must be at"),
        (lambda: hm.Appliance("x", 5.0, use_s_per_day=86_401), "must be at most 86400 s"),
        (lambda: hm.Appliance("x", 5.0, source="rumour"), "source of x must be one of"),
        (lambda: LearntFrom("abc", "2024-01-01T00:00Z", "2024-01-01T00:00Z"), "64 hexadecimal"),
        (lambda: LearntFrom("0f" * 32, "2024-01-01", "2024-01-01T00:00Z"), "has no time zone"),
        (lambda: hm.Home([], 1.0), "at least one appliance"),
        (lambda: hm.Home([hm.Appliance("x", 1.0)] * 2, 1.0), "two appliances are named 'x'"),
        (lambda: hm.Home([hm.Appliance("x", 1.0)], 0.0), "tolerance must be positive"),
        (lambda: hm.Home([hm.Appliance("x", 1.0)], 1.0, -1.0), "base_load must be finite"),
        (lambda: hm.Home([hm.Appliance("kettle", 1.0)], 1.0).index("ketle"), "did you mean"),
    ],
)
def test_bad_homes_are_refused_in_one_sentence(build, message):
    with pytest.raises(hm.errors.InputError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("= nonsense", "is not a TOML file"),
        ("tolerance = 2", "has no \\[\\[appliance\\]\\] entries"),
        ("appliance = 3\ntolerance = 2", "has no \\[\\[appliance\\]\\] entries"),
        ('[[appliance]]\nname = "x"', "the catalogue has no such appliance"),
        ('use_catalogue = 3\n[[appliance]]\nname = "tv"', "must be true or false"),
        ("tolerance = 1\n[[appliance]]\npower = 5", "an appliance has no name"),
        ('tolerance = 1\n[[appliance]]\nname = "x"\npower = "five"', "must be a number"),
        ('tolerance = 1\n[[appliance]]\nname = "x"\npowr = 5', "did you mean 'power'"),
        ('tolerance = 1\ntolerence = 2\n[[appliance]]\nname = "x"', "did you mean 'tolerance'"),
        ('tolerance = 1\n[[appliance]]\nname = "x"\nlevels = 5', "must be a list of watts"),
        (
            'learnt_from = 3\ntolerance = 1\n[[appliance]]\nname = "x"\npower = 5',
            "learnt_from must have end",
        ),
        ('tolerance = -1\n[[appliance]]\nname = "x"\npower = 5', "tolerance must be positive"),
        ('[[appliance]]\nname = "x"\npower = 5\ntyped = "power"', "typed must be a list"),
        ('[[appliance]]\nname = "x"\npower = 5\ntyped = ["pwer"]', "typed of x must be"),
        ('typed = ["power"]\n[[appliance]]\nname = "x"\npower = 5', "typed of the home must be"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path, text, message):
    path = tmp_path / "home.toml"
    path.write_text(text)
    with pytest.raises(hm.errors.DataError, match=message):
        hm.read_home(path)


def test_a_missing_or_binary_file_is_refused(tmp_path):
    with pytest.raises(hm.errors.DataError, match="cannot be read: No such file"):
        hm.read_home(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(hm.errors.DataError, match="is not a TOML file"):
        hm.read_home(tmp_path / "binary.toml")


def test_powers_keep_their_dtype():
    assert hm.Home([hm.Appliance("x", 5)], 1).powers.dtype == np.float64


def test_labelling_needs_the_power_of_every_appliance():
    home = hm.Home([hm.Appliance("kettle", 2000.0)], tolerance=20.0)
    states_only = hm.Trace([5.0, 6.0], 6.0, states=[[0], [1]], names=["kettle"])
    with pytest.raises(hm.errors.DataError, match="no column of watts for kettle"):
        home.label(states_only)
    trace = hm.Trace([5.0, 6.0], 6.0, power=[[900.0], [1100.0]], names=["kettle"])
    assert home.label(trace).states[:, 0].tolist() == [False, True]


def test_a_home_fits_a_line_and_a_notebook():
    appliances = [hm.Appliance(f"lamp {i} <b>", 10.0 + i, run_s=60.0) for i in range(40)]
    home = hm.Home(appliances, 5.0, name="x" * 200)
    assert len(repr(home)) < 100
    assert "\n" not in repr(home)
    text = home._repr_html_()
    assert "<b>" not in text
    assert "lamp 0 &lt;b&gt;" in text
    assert "and 20 more" in text
    assert len(text) < 6000
