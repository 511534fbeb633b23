"""Names that try to be markup: of homes, appliances, files and folders, in every section."""

from __future__ import annotations

import pandas as pd
import pytest

import hushmeter as hm
from hushmeter.apps.study.figures import Caption, ReproducedItem
from hushmeter.apps.study.sweep import run_study
from hushmeter.releases.release import release
from tests.apps.study.report.conftest import STUDY
from tests.apps.study.report.pages import make_page

TAG = "<img src=x onerror=alert(1)>"
QUOTE = "' onclick='alert(1)\" autofocus=\""
FORMULA = r"$\frac{ $"
SHORT = 'epsilon = [1, 5]\nmechanism = ["laplace"]'


@pytest.fixture(scope="module")
def home():
    appliances = [hm.Appliance(TAG, 900.0, run_s=180), hm.Appliance(QUOTE, 2000.0)]
    return hm.Home(appliances, tolerance=10.0, name=f"{TAG}{QUOTE}{FORMULA}")


@pytest.fixture(scope="module")
def folder(home, tmp_path_factory):
    """A sweep, a release and an item whose every name is hostile."""
    base = tmp_path_factory.mktemp("hostile") / "<b onload=alert(1)>"
    base.mkdir()
    study = STUDY.replace('epsilon = "0.05:10:6"\nmechanism = ["laplace", "gaussian"]', SHORT)
    assert SHORT in study
    (base / "study.toml").write_text(study.replace('"small"', f"'''{TAG}'''"), encoding="utf-8")
    home.save(base / "home.toml")
    run_study(base / "study.toml", base / "results", jobs=1, resume=False)
    trace = hm.synth.trace(home, 300, seed=1)
    unit = hm.resolve_unit(interval_s=trace.interval_s, home=home)
    made = release(trace, hm.Laplace(1.0, 2000.0), unit, home=home, rng=1)
    made.save(base / f"{QUOTE}.csv")
    words = Caption("fig5", TAG, QUOTE, TAG, "differs", FORMULA)
    ReproducedItem(words, pd.DataFrame({TAG: [QUOTE], "x": [1.0]})).save(base)
    return base


def test_no_name_becomes_markup(folder, tmp_path):
    """The strict reader refuses unknown tags, attributes given twice and every handler."""
    page = make_page([folder], tmp_path)
    assert "<img src=x" not in page.text
    assert "<b onload" not in page.text
    titles = [text for level, text in page.headings if level == 2]
    assert titles[:3] == ["For the household", "For the analyst", "For the reader of the paper"]


def test_every_name_is_read_as_it_is(folder, home, tmp_path):
    page = make_page([folder], tmp_path)
    odds = page.table(f"“{home.name}”: in how many out of 100")
    assert [row[0] for row in odds[1:]] == [TAG, QUOTE]
    assert f"What the release protects ({QUOTE}.csv)" in [text for _, text in page.headings]
    assert any(home.name in image["alt"] for image in page.images)
    assert page.table("The data of Fig. 5") == [[TAG, "x"], [QUOTE, "1"]]
