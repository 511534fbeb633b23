"""The page of real results: what it says is what the files say."""

from __future__ import annotations

import base64
import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

import hushmeter as hm
from hushmeter.apps.study.comparison import fit_breakpoints
from hushmeter.apps.study.figures import Caption, ReproducedItem, Setting, reproduce
from hushmeter.apps.study.report.page import SHADES, number, shade, signed
from hushmeter.apps.study.sweep import read_study
from hushmeter.formatting import format_watts, out_of_100
from tests.apps.study.report.pages import make_page

NAME = "three & more"
OLD = 'the "old" fridge & co'


@pytest.fixture(scope="module")
def page(swept, tmp_path_factory):
    return make_page([swept], tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def table(swept):
    return pd.read_parquet(swept / "results" / "results.parquet")


def test_every_reader_has_a_section(page):
    titles = [text for level, text in page.headings if level == 2]
    assert titles == ["For the household", "For the analyst", "Where the numbers come from"]
    unit = "whether any one appliance is on (up to 2000 W), in one metered reading of 1 minute"
    assert f"Every ε in this part protects {unit}." in page.prose


def swept_truth(folder):
    """The true states of the case by the names of its appliances."""
    test = read_study(folder / "study.toml").cases[0].test
    return dict(zip(test.names, test.truth().T, strict=True))


def test_the_odds_of_the_household_are_those_of_the_table(page, table, swept):
    rows = page.table(f"“{NAME}”: in how many out of 100")
    epsilons = sorted(table.epsilon.unique(), reverse=True)
    assert rows[0] == [
        "appliance",
        "without your data",
        *(f"ε = {e:.3g}|one reading" for e in epsilons),
        "followed down to",
    ]
    seeing = table[(table.mechanism == "laplace") & table.attacker.isin(["co", "bayes"])]
    assert [row[0] for row in rows[1:]] == ["kettle", "<script>", OLD]
    for row in rows[1:]:
        best = seeing.groupby(["epsilon", "attacker"])[f"alpha {row[0]}"].mean().groupby("epsilon")
        truth = swept_truth(swept)[row[0]]
        # Nobody is worse than the best guess without data.
        guess = max(truth.mean(), 1 - truth.mean(), (truth == truth[0]).mean())
        assert row[2:-1] == [out_of_100(max(guess, best.max()[e])) for e in epsilons]


def test_the_scores_of_the_analyst_are_those_of_the_table(page, table):
    rows = page.table(f"“{NAME}”, gaussian noise: accuracy α")
    epsilons = sorted(table.epsilon.unique(), reverse=True)
    for row in rows[1:5]:
        for cell, epsilon in zip(row[1:], epsilons, strict=True):
            own = table.query("mechanism == 'gaussian' and attacker == @row[0]")
            own = own[own.epsilon == epsilon]
            half = t.ppf(0.975, len(own) - 1) * own.alpha.std() / np.sqrt(len(own))
            assert cell == f"{own.alpha.mean():.3f} ± {half:.3f}|F1 {own.f1.mean():.2f}"
    floors = table.query("mechanism == 'gaussian'")[["alpha_floor", "hold_floor"]].mean().dropna()
    assert {row[1] for row in rows[5:]} == {f"{value:.3f}" for value in floors}


def test_costs_are_means_over_releases_and_near_the_exact_value(page, table):
    rows = page.table(f"“{NAME}”, laplace noise: measured mean")
    releases = table.query("mechanism == 'laplace' and attacker == 'co'")
    means = releases.groupby("epsilon").mean(numeric_only=True)
    for row, epsilon in zip(rows[1:], sorted(means.index, reverse=True), strict=True):
        reading, law = row[1].split("|expected ")
        assert reading == format_watts(means.reading_error_w[epsilon])
        mechanism = hm.Laplace(epsilon, 2000.0)
        assert law == format_watts(mechanism.mean_abs)
        assert row[-1].split("|")[0] == f"{means.monthly_bill_error[epsilon]:.2f}"
    household = page.table("The cost of the noise")
    assert [row[1] for row in household[1:]] == [row[1].split("|")[0] for row in rows[1:]]


def test_break_points_are_fitted_to_the_rows(page, table):
    rows = page.table(f"“{NAME}”, laplace noise: continuous piecewise-linear")
    assert {row[0] for row in rows[1:]} == {"co", "bayes"}
    own = table.query("mechanism == 'laplace' and attacker == 'co'")
    epsilons = sorted(own.epsilon.unique())
    grid = own.pivot(index="seed", columns="epsilon", values="alpha")[epsilons]
    fit = fit_breakpoints(epsilons, grid)
    (found,) = (row for row in rows if row[0] == "co")
    assert found[3].startswith(f"{fit.steepest.value:+.3f}".replace("-", "−"))


def test_proofs_are_those_of_the_library(page):
    home = hm.Home([hm.Appliance("k", 2000.0)], 10.0)
    mechanism = hm.Laplace(10.0, 2000.0)
    reading = page.table(f"“{NAME}”, laplace noise: how many times out of 100")
    assert reading[1][:2] == ["kettle", out_of_100(float(hm.universal_limit(home, mechanism)[0]))]
    composed = page.table(f"“{NAME}”, laplace noise: the same from all readings")
    (account,) = hm.account(mechanism, hm.Home([hm.Appliance("k", 2000.0, run_s=180)], 10.0), 1440)
    assert composed[1][1].startswith(out_of_100(min(account.run.odds, 1 - 1e-12)))
    assert composed[3][1] == "–|length is unknown"
    bounds = page.table(f"One jump of “{NAME}”")
    assert len(bounds) == 7
    assert "The assumptions of the paper, checked on" in page.prose


def test_names_are_escaped_everywhere(page):
    assert "<script" not in page.text
    assert "&lt;script&gt;" in page.text
    assert "right about the <script> in" in page.prose
    assert f"about the {OLD}" in page.prose
    assert "three &amp; more" in page.text


def test_where_the_numbers_come_from(page, swept):
    manifest = json.loads((swept / "results" / "manifest.json").read_text())
    rows = page.table("The readings, by the first digits")
    assert rows[1] == [NAME, manifest["cases"][0]["train"][:16], manifest["cases"][0]["test"][:16]]
    assert f"hushmeter {hm.__version__}" in page.prose
    assert "has the seed 3, 2 releases of each kind" in page.prose


def test_what_is_missing_is_named_with_its_command(page):
    for command in ("hushmeter reproduce all -o DIR", "hushmeter battery FILE", "hushmeter price"):
        assert command in page.prose.split("These results do not include:")[1]
    assert "hushmeter sweep" not in page.prose.split("These results do not include:")[1]


def test_without_the_study_there_are_scores_but_no_proofs(swept, tmp_path):
    page = make_page([swept / "results"], tmp_path)
    assert not any(caption.startswith("One jump") for caption in page.tables)
    assert "add the TOML file of the study" in page.prose
    assert "protects whether any one appliance is on, in one metered reading." in page.prose
    assert page.table(f"“{NAME}”: in how many out of 100")


def test_failed_cells_are_reported(swept, tmp_path):
    folder = shutil.copytree(swept / "results", tmp_path / "results")
    table = pd.read_parquet(folder / "results.parquet")
    alone = (table.epsilon == 10) & (table.mechanism == "laplace")
    lost = table.index[alone & table.attacker.isin(["co", "bayes"])]
    table["error"] = None
    table.loc[lost, "error"] = "ValueError: <no>."
    table.loc[lost, [c for c in table if c.startswith(("alpha", "visib", "f1"))]] = None
    table.to_parquet(folder / "results.parquet")
    page = make_page([folder], tmp_path)
    assert (
        f"4 of {len(table)} cells failed and are left out. The first error: ValueError: <no>."
        in (page.prose)
    )
    assert {row[2] for row in page.table(f"“{NAME}”: in how many out of 100")[1:]} == {"–"}


def test_items_of_the_paper(tmp_path):
    made = [reproduce(item, Setting(readings=200, seeds=2)) for item in ("fig2", "table1")]
    words = Caption("fig11", "nothing", "a < b.", "b & a.", "differs", "because.")
    made.insert(1, ReproducedItem(words, pd.DataFrame({"x": [1.0]})))
    for artefact in made:
        artefact.save(tmp_path / "items")
    page = make_page([tmp_path / "items"], tmp_path)
    rows = page.table("All items")
    assert [row[0] for row in rows[1:]] == ["Fig. 2", "Fig. 11", "Table I"]
    assert [row[1].lower() for row in rows[1:]] == [one.words.verdict for one in made]
    for artefact in made:
        assert artefact.words.claim[1:] in page.prose
        assert artefact.words.finding[1:] in page.prose
        assert artefact.words.reason[1:] in page.prose
    assert "A < b." in page.prose
    assert 'class="verdict differs"' in page.text
    assert page.table("The data of Table I")[0] == list(made[2].table)
    saved = (tmp_path / "items" / "fig2.svg").read_bytes()
    assert any(base64.b64decode(i["src"].split(",")[1]) == saved for i in page.images)
    titles = [text for level, text in page.headings if level == 2]
    assert titles[0] == "For the reader of the paper"


def test_the_same_results_give_the_same_page(page, swept, tmp_path):
    assert make_page([swept], tmp_path).text == page.text


@pytest.mark.parametrize(
    ("value", "word"),
    [(0.01234, "0.0123"), (12345.6, "12346"), (-3.5, "−3.5"), (999.4, "999"), (1e6, "1000000")],
)
def test_numbers_have_no_powers_of_ten(value, word):
    assert number(value) == word


def test_signed_numbers_never_say_minus_zero():
    assert signed(-0.0001) == "+0.000"
    assert signed(-0.0126) == "−0.013"
    assert signed(0.5) == "+0.500"


@given(st.floats(-2, 2))
def test_shades_rise_with_the_share(share):
    assert 0 <= shade(share) <= SHADES
    assert shade(share) <= shade(share + 0.3)
    assert abs(shade(share) - SHADES * min(max(share, 0), 1)) <= 0.5 + 1e-9


def test_nothing_and_unknown_have_no_shade():
    assert shade(math.nan) == shade(-0.3) == shade(0.0) == shade(0.09) == 0
