"""Batteries, prices and releases on the page, made by their commands."""

from __future__ import annotations

import json
import shutil

import pytest

import hushmeter as hm
from hushmeter.apps.study.figures import reproduce
from hushmeter.apps.study.report.page import collect_results, missing_results
from hushmeter.errors import DataError
from hushmeter.files import write_table
from hushmeter.formatting import out_of_100
from tests.apps.study.report.pages import make_page
from tests.cli.test_commands import run


@pytest.fixture(scope="module")
def adopters(tmp_path_factory):
    """A battery, a menu and a release, made by their commands."""
    folder = tmp_path_factory.mktemp("adopters")
    home = hm.synth.ready_home("evening").subset(["kettle", "fridge"])
    trace = hm.synth.trace(home, 3000, seed=2)
    home.save(folder / "home.toml")
    columns = {"timestamp": trace.times, "watts": trace.readings}
    write_table(folder / "meter.csv", columns)
    at = ("--home", folder / "home.toml")
    run(
        "battery", folder / "meter.csv", *at, "-e", 1, "--capacity", 10, "--power", 5,
        "--appliance", "kettle", "--span", "run", "--every", "30min", "--days", 50,
        "-o", folder / "battery",
    )  # fmt: skip
    run("price", *at, "--trace", folder / "meter.csv", "-e", "0.3,1,3", "-o", folder / "prices")
    run(
        "release", folder / "meter.csv", *at, "-e", 1, "--span", "run", "--every", "30min",
        "-o", folder / "out.csv",
    )  # fmt: skip
    return folder


def test_battery_price_and_release(adopters, tmp_path):
    page = make_page([adopters], tmp_path)
    titles = [text for level, text in page.headings if level == 2]
    assert titles == [
        "For the household", "The battery", "The price", "Where the numbers come from",
    ]  # fmt: skip
    battery = json.loads((adopters / "battery" / "battery.json").read_text())
    rows = page.table("Sizes that are proved to be sufficient")
    assert [row[3] for row in rows[1:]] == [f"{s['capacity_kwh']:.3g}" for s in battery["sizing"]]
    for sentence in battery["sentences"]:
        assert " ".join(sentence.split()) in page.prose
    menu = json.loads((adopters / "prices" / "prices.json").read_text())
    rows = page.table("The menu")
    assert {row[-1] for row in rows[1:]} == {f"{e['surplus']:.2f}" for e in menu["menu"]}
    assert f"{out_of_100(menu['best']['odds'])} (best)" in [row[0] for row in rows]
    for assumption in menu["assumptions"]:
        assert f"Assumed: {assumption}" in page.prose
    private = json.loads((adopters / "out.csv.private.json").read_text())
    promised = page.table("Proved: how many times out of 100")
    for row, one in zip(promised[1:], private["appliances"], strict=True):
        epsilon = min(one["run"]["basic"], one["run"]["pld"])
        assert row[2] == f"{out_of_100(min(one['run']['odds'], 1 - 1e-12))}|ε = {epsilon:.3g}"
    assert private["receipt"]["output"]["sha256"] in page.prose
    assert len(page.images) == 3


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("battery/battery.json", "sizing"),
        ("prices/prices.json", "menu"),
        ("out.csv.private.json", "sentence"),
    ],
)
def test_an_incomplete_answer_is_one_sentence(adopters, tmp_path, name, key):
    folder = shutil.copytree(adopters, tmp_path / "adopters")
    content = json.loads((folder / name).read_text())
    del content[key]
    (folder / name).write_text(json.dumps(content))
    with pytest.raises(DataError, match=f"{name} is damaged or incomplete .*{key}"):
        make_page([folder], tmp_path)


def test_a_file_that_is_no_picture_is_refused(adopters, tmp_path):
    folder = shutil.copytree(adopters, tmp_path / "adopters")
    (folder / "prices" / "prices.svg").write_text("<svg onload='alert(1)'>")
    with pytest.raises(DataError, match=r"prices.svg is not a picture: make it again"):
        make_page([folder], tmp_path)


def test_nothing_is_missing_where_everything_is_there(swept, adopters, tmp_path):
    reproduce("fig2").save(tmp_path / "items")
    found = collect_results([swept, adopters, tmp_path / "items"])
    assert missing_results(found) == []
