"""The words and the layouts of the data files: complete, well-formed, and named by the rules."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import hushmeter
from hushmeter.clock import check_zone
from hushmeter.read.cells import Cells
from hushmeter.read.columns import Column, is_unix
from hushmeter.read.headers import (
    PREPARATIONS,
    Layout,
    find_layout,
    find_unit,
    has_word,
    load_layouts,
    load_words,
    missing_marks,
    read_meaning,
    split_words,
)
from hushmeter.read.recording import unit_factor

WORDS = load_words()
LAYOUTS = load_layouts()


def innocent_names():
    lines = Path(__file__).with_name("innocent_names.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and line[0] not in "#["]


@pytest.mark.parametrize("name", WORDS["words"])
def test_a_list_holds_words_as_headers_are_split(name):
    words = WORDS["words"][name].split()
    assert len(set(words)) == len(words)
    for word in words:
        assert re.fullmatch(r"\*?[^\W_]+(?:_[^\W_]+)*\*?", word), word
        assert " ".join(split_words(word.strip("*").replace("_", " "))) == word.strip("*").replace(
            "_", " "
        )


def test_a_word_matches_itself_and_a_star_any_letters():
    assert has_word("Einspeisung (kWh)", "export")
    assert has_word("gas", "gas")
    assert not has_word("gasoline", "gas")
    assert has_word("dagverbruik", "cost", "tariff") is False
    assert has_word("hoogtarief", "cost", "tariff")
    assert has_word("energy from grid", "import")


def test_names_of_circuits_rooms_and_tariffs_are_no_direction_time_or_price():
    names = innocent_names()
    assert len(set(names)) >= 300
    watts = Cells.of(np.array([150.0, 1600.0]))
    for name in names:
        forms = (name, f"{name} (kWh)", f"{name} [W]", f"{name.lower().replace(' ', '_')}_kw")
        for header in (*forms, name.upper()):
            flow = read_meaning(header).flow
            assert flow not in ("export", "production", "battery", "price", "net"), (header, flow)
            assert not is_unix(Column(header, "", watts, ".", "number")), header


@pytest.mark.parametrize(
    ("header", "flow"),
    [("NOK_per_kWh", "price"), ("perKwh", "price"), ("Preis ct/kWh", "price"),
     ("Prix par kWh", "price"), ("gCO2/kWh", "price"), ("Verbrauch/kWh", "use"),
     ("Usage per day (kWh)", "use"), ("W/m2", "other"),
     ("A+ (kWh)", "import"), ("Active energy- (Wh)", "export"), ("Current usage (kW)", "use"),
     ("Current (A)", "other"), ("Verbrauch Gesamt - 1.8.0", "use"), ("1-0:2.8.0 (kWh)", "export")],
)  # fmt: skip
def test_the_unit_comes_first(header, flow):
    assert read_meaning(header).flow == flow


def test_a_word_of_use_outranks_the_number_of_a_register():
    assert not read_meaning("Verbrauch Gesamt - 1.8.0").counter
    assert read_meaning("Zaehlerstand Gesamt - 1.8.0").counter
    assert read_meaning("1-0:1.8.0 (kWh)").counter


def test_the_rules_name_every_list_and_no_other():
    used: set[str] = set()
    library, neighbours = Path(hushmeter.__file__).parent, Path(__file__).parents[1] / "neighbours"
    for path in (*library.rglob("*.py"), *neighbours.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "has_word" in text else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "has_word":
                names = [a.value for a in node.args[1:] if isinstance(a, ast.Constant)]
                assert set(names) <= set(WORDS["words"]), (path, names)
                used.update(names)
    # The rules also take these from their own lists of names.
    used |= {"gas", "water", "heat", "export", "battery", "production", "generic"}
    used |= {"energy_names", "power_names", "year", "month", "day"}
    used |= {
        "weak_export",
        "weak_battery",
        "weak_production",
        "middles",
        "starts",
        "ends",
        "other_times",
    }
    assert used == set(WORDS["words"])


def test_units_months_and_zones_are_complete():
    for unit, text in WORDS["units"]["electric"].items():
        unit_factor(unit)
        assert find_unit(text.split()[0]) == unit
    assert set(WORDS["units"]["gas"].split()) <= set(WORDS["units"]["other"].split())
    assert len(WORDS["months"]) == 12
    assert all(-720 <= minutes <= 840 for minutes in WORDS["zones"].values())
    assert {"", "nan", "null"} <= missing_marks()


def test_every_layout_is_complete():
    for layout in LAYOUTS:
        assert all((layout.needs, layout.values, layout.format, layout.country))
        named = (layout.time, *layout.values, *layout.needs, *layout.ignore, *layout.keep)
        assert all(name == name.lower() for name in named)
        assert layout.time in layout.needs or layout.time == "unix"
        assert set(layout.values) <= layout.needs
        assert layout.stamp in ("start", "end", "after")
        assert not layout.prepare or layout.prepare in PREPARATIONS
        if layout.unit is not None:
            unit_factor(layout.unit)
        if layout.tz is not None:
            check_zone(layout.tz)
    assert {layout.prepare for layout in LAYOUTS} - {""} == set(PREPARATIONS)


def test_no_layout_hides_a_later_one():
    for i, layout in enumerate(LAYOUTS):
        assert find_layout(layout.needs) is layout, (i, layout.format)


def test_a_layout_that_states_nothing_leaves_the_table_as_it_is():
    table, notes = {"Stamp": Cells.of(np.array([1])), "Import": Cells.of(np.array([2.0]))}, []
    layout = Layout("My logger", frozenset({"stamp", "import"}), "stamp", ("import",))
    assert layout.prepared(table, notes) == table
    assert notes == []
    assert {field.name for field in fields(Layout)} >= {"needs", "time", "values"}


def test_words_are_split_without_accents():
    assert split_words("Volume prélevé (kWh)") == ("volume", "preleve", "kwh")


SPELLINGS = {
    "kWh": "kWh KWH kwh kWH KWh kWhr kWhrs kW-h kW-hr kW·h kW⋅h kW∙hr kW*h kW×h kW.h kW/h kW_h "
    "kWattH EnergykWh UsageKWH UsagekWH total_kwh kilowatthour KILOWATTHOURS Kilowattstunden "
    "kilowattuur kilowatt-hours кВт·ч кВтч kwh_import",
    "Wh": "Wh WH W-h W·h W/h UsageWh watthours",
    "MWh": "MWh mwh MW·h MW/h megawatt-hours",
    "milliWh": "mWh milliWh",
    "W": "W w watts Watt power_w",
    "kW": "kW KW kilowatts power_kw кВт",
    "MW": "MW mw",
    None: "kWp kVAh kvar kWh/h kWh/day kW/15min kW·min W/m2 mW 万kW shows",
}
WITH_BLANKS = {
    "kWh": [
        "kW h",
        "k W h",
        "kW H",
        "kW hr",
        "kW hours",
        "kilowatt hours",
        "KWH/hh (per half hour)",
    ],
    "Wh": ["W h", "Watt hours", "Energy [W h]"],
    "kW": ["kW (1h)", "kW hourly", "k W", "Stromverbrauch [kW]"],
    "W": ["Power W 1h"],
    None: ["kW and kWh", "show hours", "kWh / Tag"],
}


@pytest.mark.parametrize(
    ("spelling", "unit"),
    [(word, unit) for unit, text in SPELLINGS.items() for word in text.split()]
    + [(text, unit) for unit, texts in WITH_BLANKS.items() for text in texts],
)
def test_a_unit_is_read_whole_or_not_at_all(spelling, unit):
    assert find_unit(spelling) == unit
