from __future__ import annotations

import math

import pytest

import hushmeter as hm
from hushmeter.errors import InputError

KINDS = list(hm.catalogue.values())
RANGES = ("power_w", "run_s", "run_wh", "runs_per_day")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_numbers_of_a_kind_agree_with_each_other(kind):
    for field in RANGES:
        low, typical, high = getattr(kind, field)
        assert 0 < low <= typical <= high
    assert kind.run_wh.high <= kind.power_w.high * kind.run_s.high / 3600
    assert kind.run_wh.typical <= kind.power_w.high * kind.run_s.typical / 3600
    assert kind.run_wh.high <= kind.day_wh <= 24 * kind.power_w.high
    assert kind.use_s_per_day >= min(86_400, kind.day_wh * 3600 / kind.power_w.high)
    assert kind.basis.endswith(".")
    assert kind.sources


def test_every_name_and_alias_finds_its_kind_and_no_other():
    words = [(word, kind.name) for kind in KINDS for word in (kind.name, *kind.aliases)]
    assert len({word.casefold() for word, _ in words}) == len(words)
    assert all(hm.catalogue[word].name == name for word, name in words)
    assert hm.catalogue["  Fridge  FREEZER "].name == "fridge-freezer"
    assert hm.catalogue["e-bike charger"] is hm.catalogue["EBIKE"]


def test_the_catalogue_is_a_mapping_of_names():
    assert len(hm.catalogue) == len(KINDS) >= 38
    assert "tv" in hm.catalogue
    assert "tv" not in list(hm.catalogue)
    assert "nonsense" not in hm.catalogue
    assert 5 not in hm.catalogue


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(InputError, match="did you mean 'kettle'"):
        _ = hm.catalogue["ketle"]
    with pytest.raises(KeyError, match="hushmeter catalogue"):
        _ = hm.catalogue["particle accelerator"]


def test_a_name_alone_is_protected_at_the_high_values():
    for kind in KINDS:
        appliance = hm.Appliance.from_words(kind.name)
        assert appliance.protected_power == kind.power_w.high
        assert appliance.protected_run_s == kind.run_s.high
        assert appliance.protected_energy_wh == kind.run_wh.high
        assert appliance.protected_use_s_per_day == kind.use_s_per_day
        assert appliance.source == "catalogue"


def test_the_words_of_the_user_replace_the_catalogue():
    kettle = hm.Appliance.from_words("kettle 2100 W 180 s")
    assert (kettle.protected_power, kettle.protected_run_s) == (2100.0, 180.0)
    assert kettle.protected_energy_wh is None
    assert kettle.source == "typed"
    charger = hm.Appliance.from_words("Wallbox 6.6kW")
    assert (charger.name, charger.protected_power) == ("car charger", 6600.0)
    assert charger.protected_run_s == hm.catalogue["car charger"].run_s.high
    washer = hm.Appliance.from_words("washing machine 1.2 kWh 2 h")
    assert (washer.protected_energy_wh, washer.protected_run_s) == (1200.0, 7200.0)
    assert washer.protected_power == hm.catalogue["washing machine"].power_w.high
    tank = hm.Appliance.from_words("aquarium 80 W 12 h")
    assert (tank.name, tank.power, tank.run_s, tank.source) == ("aquarium", 80.0, 43_200.0, "typed")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("aquarium", "aquarium 300 W 2 h"),
        ("kettle 2 kW 3 W", "two numbers for one quantity"),
        ("2 kW", "needs a name"),
        ("kettle, kettle", "two appliances are named 'kettle'"),
        (" , ", "at least one appliance"),
    ],
)
def test_words_that_describe_no_home_are_refused(words, message):
    with pytest.raises(InputError, match=message):
        hm.Home.from_words(words)


def test_a_list_of_words_is_a_home():
    home = hm.Home.from_words(["kettle, tv", "car charger 7.4 kW"])
    assert home.names == ("kettle", "television", "car charger 7.4 kW")
    assert home.tolerance == 20.0


def test_a_file_needs_only_names(tmp_path):
    path = tmp_path / "home.toml"
    path.write_text('[[appliance]]\nname = "kettle"\n[[appliance]]\nname = "oven"\npower = 2500\n')
    home = hm.read_home(path)
    assert home.appliances[0] == hm.Appliance.from_words("kettle")
    assert home.appliances[1] == hm.Appliance.from_words("oven 2500 W")
    assert home.tolerance == 20.0
    assert math.isclose(home.appliances[1].protected_energy_wh, 2600.0)


def test_a_saved_home_is_not_filled_when_it_is_read(tmp_path):
    home = hm.Home([hm.Appliance("kettle", 2000.0), hm.Appliance("fridge", 120.0)], tolerance=20.0)
    home.save(tmp_path / "home.toml")
    assert "use_catalogue = false" in (tmp_path / "home.toml").read_text()
    assert hm.read_home(tmp_path / "home.toml") == home
    complete = hm.Home.from_words("kettle, oven")
    complete.save(tmp_path / "complete.toml")
    assert "use_catalogue" not in (tmp_path / "complete.toml").read_text()
    assert hm.read_home(tmp_path / "complete.toml") == complete
