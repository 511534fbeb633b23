"""The reader's options, the same in every command that reads a file of readings."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import hushmeter as hm
from hushmeter.cli import app
from hushmeter.cli.reading import OPTIONS, reads
from hushmeter.read import ReadOptions
from tests.cli.test_commands import run

FLAGS = {"--" + name.replace("_", "-") for name in OPTIONS}


@pytest.mark.parametrize("name", ["inspect", "release", "attack", "advise", "battery", "price"])
def test_commands_that_read_readings_take_all_options(name):
    command = typer.main.get_command(app).commands[name]
    given = {flag for parameter in command.params for flag in parameter.opts}
    assert given >= FLAGS


def test_the_options_name_the_readers_own():
    assert set(OPTIONS) | {"repeats"} == set(inspect.signature(ReadOptions).parameters)


def test_a_command_gets_its_options_in_one_argument():
    told = []

    def show(file: str, options: ReadOptions, times: int = 1) -> None:
        told.append((file, options, times))

    small = typer.Typer()
    small.command()(reads("unit", "tz", repeats="last")(show))
    done = CliRunner().invoke(small, ["meter.csv", "--times", "3", "--unit", "kWh", "--tz", "UTC"])
    assert done.exit_code == 0, done.output
    assert told == [("meter.csv", ReadOptions(unit="kWh", tz="UTC", repeats="last"), 3)]
    assert CliRunner().invoke(small, ["meter.csv", "--stamp", "end"]).exit_code == 2


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
