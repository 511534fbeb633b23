"""Shared options: one name, one text, one default and one place; their parsers and the reader's."""

from __future__ import annotations

import inspect
import json
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import hushmeter as hm
from hushmeter.apps import __file__ as apps_of_package
from hushmeter.cli import CORE, PANELS, app
from hushmeter.cli.options import (
    READER_OPTIONS,
    make_request,
    name_options,
    parse_epsilon_range,
    parse_home,
    parse_interval,
    parse_numbers,
    parse_watts,
    takes_reader_options,
    takes_request,
)
from hushmeter.cli.output import flag_of
from hushmeter.errors import DataError, InputError
from hushmeter.read import ReadOptions
from hushmeter.releases.request import Request
from hushmeter.synth import ready_home
from tests.cli.test_commands import run

ORDER = (
    "home", "have", "trace", "epsilon", "mechanism", "protect", "appliance", "span", "every",
    "sensitivity", "clamp", "grid", "delta", "max_epsilon", "attacker", "energy_price", "seed",
    "jobs", "resume", "output", "force", "json", "time_column", "value_column", "unit", "stamp",
    "tz", "building",
)  # fmt: skip
ONE_MEANING = (
    "home", "have", "mechanism", "clamp", "grid", "max_epsilon", "jobs", "force", "json", "open",
    "time_column", "value_column", "stamp", "building",
)  # fmt: skip


def walk(command, name=""):
    for word, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, f"{name} {word}".strip())
    if not hasattr(command, "commands"):
        yield name, command


COMMANDS = dict(walk(typer.main.get_command(app)))
PARAMETERS = [
    (name, parameter)
    for name, command in COMMANDS.items()
    for parameter in command.params
    if parameter.name != "help"
]


def long_name(parameter):
    return max(parameter.opts, key=len).removeprefix("--").replace("-", "_")


@pytest.mark.parametrize("name", COMMANDS)
def test_shared_options_come_in_one_order(name):
    told = [long_name(p) for p in COMMANDS[name].params if p.param_type_name == "option"]
    shared = [option for option in told if option in ORDER]
    assert shared == sorted(shared, key=ORDER.index)


@pytest.mark.parametrize("option", ONE_MEANING)
def test_one_option_has_one_help_and_one_short_name(option):
    told = defaultdict(set)
    for name, parameter in PARAMETERS:
        if parameter.param_type_name == "option" and long_name(parameter) == option:
            told[parameter.help, tuple(sorted(parameter.opts))].add(name)
    assert len(told) == 1, dict(told)


def test_one_long_option_has_one_short_one():
    told = defaultdict(set)
    for _, parameter in PARAMETERS:
        if parameter.param_type_name == "option":
            short = [o for o in parameter.opts if not o.startswith("--")]
            told[long_name(parameter)].add(tuple(short))
    assert {option: short for option, short in told.items() if len(short) > 1} == {}


def test_help_shows_at_most_15_options_and_help_all_shows_every_one():
    for name, command in COMMANDS.items():
        shown = run(*name.split(), "--help").stdout
        every = run(*name.split(), "--help-all").stdout if command.rare else shown
        options = [max(p.opts, key=len) for p in command.params if p.param_type_name == "option"]
        assert len(re.findall(r"^│ [ *]* -", shown, re.MULTILINE)) <= 15, name
        assert all(option in every for option in options), name
        assert not any(option.hidden for option in command.params), name


def test_the_commands_of_the_core_are_shown_first_and_those_of_each_app_under_its_name():
    group = typer.main.get_command(app)
    shown = [name for name, command in group.commands.items() if not command.hidden]
    assert len(shown) <= 24
    titles = re.findall(r"─ (?!Options)(\w[\w ':]+?) ─", run("--help").stdout)
    assert titles == [title for title in PANELS if title]
    assert titles[: len(CORE) - 1] == [title for title in CORE if title]
    apps = {path.parent.name for path in Path(apps_of_package).parent.glob("*/commands.py")}
    assert {title.partition(":")[0] for title in titles[len(CORE) - 1 :]} == apps
    assert {name for name in group.commands if name not in shown} == set(PANELS[None])


def test_every_parameter_says_what_it_is_in_a_sentence():
    for name, parameter in PARAMETERS:
        assert parameter.help, (name, parameter.name)
        assert not parameter.help.endswith(" "), (name, parameter.name)


def test_every_command_prints_json_and_shows_an_example():
    for name, command in COMMANDS.items():
        assert any("--json" in p.opts for p in command.params), name
        assert f"Example: hushmeter {name}" in command.help, name


@pytest.mark.parametrize(
    "words",
    [
        ("attack", "x.csv", "--home", "evening", "-a", "hold", "-o", "y.csv"),
        ("advise", "--home", "evening", "--hide", "kettle"),
        ("audit",),
        ("battery", "x.csv", "--home", "evening", "-e", 1, "--capacity", 1, "--power", 1),
        ("cluster", "x.csv", "-o", "y"),
        ("demo", "-o", "y"),
        ("release", "x.csv", "--home", "evening", "-e", 1, "-o", "y.csv"),
        ("reproduce", "fig2", "-o", "y"),
        ("synth-fleet", "-o", "y"),
    ],
)
def test_a_negative_seed_is_refused_before_anything_else(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*words, "--seed", -1, expect=2)
    assert done.stderr == "hushmeter: seed must be a whole number of at least 0, got -1.\n"
    assert list(tmp_path.iterdir()) == []


FLAGS = {flag_of(name) for name in READER_OPTIONS}


@pytest.mark.parametrize("name", ["inspect", "release", "attack", "advise", "battery", "price"])
def test_commands_that_read_readings_take_all_options(name):
    command = typer.main.get_command(app).commands[name]
    given = {flag for parameter in command.params for flag in parameter.opts}
    assert given >= FLAGS


def test_the_options_name_the_readers_own():
    assert set(READER_OPTIONS) == set(inspect.signature(ReadOptions).parameters)


def test_a_command_gets_its_options_in_one_argument():
    told = []

    def show(file: str, options: ReadOptions, times: int = 1) -> None:
        told.append((file, options, times))

    small = typer.Typer()
    small.command()(takes_reader_options("unit", "tz")(show))
    done = CliRunner().invoke(small, ["meter.csv", "--times", "3", "--unit", "kWh", "--tz", "UTC"])
    assert done.exit_code == 0, done.output
    assert told == [("meter.csv", ReadOptions(unit="kWh", tz="UTC"), 3)]
    assert CliRunner().invoke(small, ["meter.csv", "--stamp", "end"]).exit_code == 2


def test_a_command_gets_its_request_in_one_argument():
    told = []

    def show(file: str, request: Request) -> None:
        told.append((file, request))
        request.resolve(hm.Metered(600.0))

    small = typer.Typer()
    small.command()(takes_request()(show))
    words = ["meter.csv", "--hide", "kettle", "--odds", "70", "--for", "day", "--table", "year"]
    done = CliRunner().invoke(small, [*words, "--table", "peak = 16:00-21:00"])
    assert done.exit_code == 0, done.output
    tables = ["cells", "year", "peak = 16:00-21:00"]
    wish = hm.Request(hide="kettle", odds=70, purpose="day", tables=tables)
    assert told == [("meter.csv", wish)]
    refused = CliRunner().invoke(small, ["meter.csv", "-e", "1"])
    assert str(refused.exception).startswith("protect 'appliance' needs to know your appliances")


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"epsilon": "1", "home": "evening"}, {"epsilon": "1"}),
        ({"epsilon": "1", "home": "evening", "views": True}, {"epsilon": "1", "tables": "views"}),
        (
            {"epsilon": "2", "have": ["kettle"], "views": True, "table": ["year"]},
            {"epsilon": "2", "tables": ["views", "year"]},
        ),
        (
            {"epsilon": "0.5", "sensitivity": "200", "clamp": "0,9000", "grid": "0.1"},
            {"epsilon": "0.5", "watts": 200.0, "clamp": (0.0, 9000.0), "grid": "0.1"},
        ),
        (
            {"odds": 0.7},
            {"odds": 0.7, "hide": [hm.Appliance.from_words(name) for name in hm.catalogue]},
        ),
    ],
)
def test_options_mean_the_fields_of_a_request(options, fields):
    home = options.get("home") and ready_home("evening")
    if "have" in options:
        home = hm.Home.from_words(options["have"])
    assert make_request(options) == hm.Request(home=home, **fields)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"hide": "kettle", "epsilon": 1}, "--hide finds the noise itself: leave out --epsilon."),
        ({"hide": "kettle", "watts": 9}, "leave out --sensitivity."),
        ({}, "say what to hide, such as --hide kettle, or give an ε of your own with -e."),
        ({"epsilon": 1, "odds": 0.6}, "--odds and --for need --hide, which states what the odds"),
        ({"epsilon": 30}, "--epsilon must be at most --max-epsilon = 20, got 30; raise --max-eps"),
        ({"epsilon": 1, "watts": 9, "protect": "range"}, "--sensitivity is the size of a change, "),
        ({"epsilon": 1, "watts": 9, "protect": "range"}, "but --protect is 'range'."),
        ({"epsilon": 1, "mechanism": "laplace", "tables": "views"}, "out --mechanism laplace."),
        ({"epsilon": 1, "hourly_cost": 1.3}, "--hourly-cost needs several tables, such as --views"),
        ({"hide": "kettle", "odds": 300}, "--odds must lie between 0 and 1"),
    ],
)
def test_a_sentence_about_a_request_names_the_options(fields, says):
    with pytest.raises(InputError) as refused:
        hm.Request(**fields)
    assert says in name_options(str(refused.value))


def test_words_that_are_no_fields_stay():
    for sentence in (
        "the noise that hides the kettle is too wide for any grid; allow larger odds.",
        "the span 'when' publishes the sums of the days.",
        "there is no appliance named 'ketle'; did you mean 'kettle'?",
    ):
        assert name_options(sentence) == sentence


def test_a_release_of_kilowatt_hours_in_local_time(tmp_path):
    rows = "when,used\n2024-01-01 00:00,0.25\n2024-01-01 00:30,0.5\n2024-01-01 01:00,1\n"
    (tmp_path / "meter.csv").write_text(rows)
    out = tmp_path / "out.csv"
    options = ["--time-column", "when", "--value-column", "used", "--unit", "kWh"]
    noise = ["-e", "20", "--sensitivity", "0.001", "--grid", "0.001"]
    run("release", tmp_path / "meter.csv", *options, "--tz", "Europe/Berlin", *noise, "-o", out)
    released = hm.read_meter(out)
    np.testing.assert_allclose(released.readings, [500, 1000, 2000], atol=0.1)
    assert str(released.times[0]).startswith("2023-12-31T23:00")


def test_a_home_is_a_file_or_a_ready_one(tmp_path):
    evening = ready_home("evening")
    evening.save(tmp_path / "mine.toml")
    assert parse_home("evening").names == evening.names
    assert parse_home(str(tmp_path / "mine.toml")).names == evening.names
    with pytest.raises(DataError, match=r"nowhere\.toml is neither a file nor a ready home"):
        parse_home(str(tmp_path / "nowhere.toml"))
    with pytest.raises(DataError, match=r"evning is neither a file.*\(evening, "):
        parse_home("evning")


def test_a_range_of_epsilon_is_even_in_its_logarithm():
    values = parse_epsilon_range("0.01:10")
    assert (values[0], values[-1]) == pytest.approx((0.01, 10.0))
    steps = np.diff(np.log(values))
    np.testing.assert_allclose(steps, steps[0])
    assert parse_epsilon_range("1,0.5").tolist() == [1.0, 0.5]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a:b", "epsilon must be LO:HI or numbers with commas, got 'a:b'."),
        ("2:1", "epsilon must be LO:HI with LO below HI, got '2:1'."),
        ("1:2:3", "epsilon must be LO:HI with LO below HI, got '1:2:3'."),
        ("0:1", "epsilon must be positive"),
        ("", "epsilon must be LO:HI or numbers with commas, got ''."),
    ],
)
def test_bad_epsilons_get_one_sentence(text, says):
    with pytest.raises(InputError) as refused:
        parse_epsilon_range(text)
    assert says in str(refused.value)


def test_an_interval_is_a_time_or_whole_seconds():
    assert parse_interval("900") == parse_interval("15min") == 900
    for wrong, says in (
        ("0.5s", "number of seconds"),
        ("0", "positive"),
        ("soon", "30s, 15min"),
    ):
        with pytest.raises(InputError, match=says):
            parse_interval(wrong)


def test_numbers_and_watts():
    assert parse_numbers("tariff", "1, 2.5,3e-1") == [1.0, 2.5, 0.3]
    assert parse_watts("sensitivity", "120") == 120.0
    with pytest.raises(InputError, match="tariff must be numbers with commas, got '1;2'"):
        parse_numbers("tariff", "1;2")
    with pytest.raises(InputError, match="sensitivity must be a number of watts, got '2kW'"):
        parse_watts("sensitivity", "2kW")


def test_appliances_in_words_replace_a_home(tmp_path):
    words = ["--have", "kettle 2100 W 180 s,fridge", "--have", "car charger 7.4 kW"]
    listed = json.loads(run("catalogue", *words, "--json").stdout)
    assert [entry["name"] for entry in listed["appliance"]] == [
        "kettle", "fridge", "car charger 7.4 kW",
    ]  # fmt: skip
    run("catalogue", *words, "-o", tmp_path / "home.toml")
    by_words = run("bounds", *words, "-e", "1", "--json").stdout
    by_file = run("bounds", tmp_path / "home.toml", "-e", "1", "--json").stdout
    assert json.loads(by_words)["exact"] == json.loads(by_file)["exact"]
    both = run("bounds", "evening", *words, expect=2).stderr
    assert "either --home or --have" in both
    assert "list your appliances with --have" in run("bounds", expect=2).stderr


def test_the_catalogue_prints_the_high_values_and_the_sources():
    assert "3.1 kW" in run("catalogue").stdout
    kettle = run("catalogue", "Electric-Kettle").stdout
    assert "235 Wh" in kettle
    assert "Source: " in kettle
    assert "did you mean 'kettle'" in run("catalogue", "ketle", expect=2).stderr


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("inspect", "m.csv", "--tz", "UTC", "--tz", "Europe/Berlin"), "--tz"),
        (("price", "--buyer", "a", "--home", "evening", "--buyer", "b"), "--buyer"),
        (("release", "m.csv", "-o", "a.csv", "-e", "1", "--epsilon", "2"), "--epsilon"),
        (("ledger", "init", "--ledger", "a", "--ledger", "b"), "--ledger"),
    ],
)
def test_an_option_of_which_only_the_last_value_would_count_is_given_once(words, option):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert f"{option} is given twice, and only one value counts" in done.output


def test_options_that_collect_and_flags_may_be_repeated():
    words = ("attack", "absent.csv", "--have", "kettle", "--have", "oven", "--force", "--force")
    assert "twice" not in CliRunner().invoke(app, words).output


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("--buyer", "value=1,value=2"), "--buyer names 'value' twice"),
        (("--buyer", "value=60", "--harm", "presence=1", "--harm", "presence=2"), "--harm names"),
    ],
)
def test_a_name_within_an_option_is_given_once(tmp_path, words, name):
    hm.write_meter(tmp_path / "m.csv", hm.synth.trace(hm.synth.ready_home("evening"), 300, seed=1))
    trace = ("--trace", str(tmp_path / "m.csv"), "--home", "evening")
    assert name in str(CliRunner().invoke(app, ("price", *trace, *words)).exception)


def test_a_name_of_an_output_that_is_no_text_is_refused():
    words = ("release", "m.csv", "--hide", "kettle", "-o", "o\udcff.csv")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "the name of the output is not UTF-8" in done.output


def test_the_help_of_a_ledger_shows_both_of_its_changes():
    shown = CliRunner().invoke(app, ("ledger", "init", "--help"), terminal_width=200).output
    assert re.search(r"--clamp +<", shown)
    assert re.search(r"--change +<", shown)
