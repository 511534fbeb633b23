from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

import hushmeter as hm
from hushmeter.apps.plot.accuracy import VACUOUS, SweepPanel, draw_panels, mean_and_band
from hushmeter.apps.study.figures import ITEMS, MOST_WORDS, Setting, compressive, reproduce
from hushmeter.apps.study.figures import attackers as figure_attackers
from hushmeter.theory.bounds import bounds

# One worker makes the items once for all of them.
SMALL = Setting(seeds=2, readings=240)


@pytest.mark.parametrize("item", ITEMS)
def test_every_item_has_data_a_picture_and_a_verdict(item, small_items):
    made, saved = small_items[0][item], small_items[1][item]
    assert len(made.table) > 2
    assert "seconds" not in made.table
    for word in ("The paper:", "Here:", "Verdict:", "synthetic"):
        assert word in made.caption
    assert len(made.words.text.split()) <= MOST_WORDS
    kinds = {path.suffix for path in saved}
    assert kinds == ({".csv", ".txt"} if item == "table1" else {".png", ".svg", ".csv", ".txt"})


@pytest.mark.slow
def test_a_second_run_writes_the_same_bytes_with_any_number_of_workers(tmp_path):
    for name, jobs in (("one", 1), ("again", 1), ("two", 2)):
        for item in ("fig3", "fig9", "table1"):
            reproduce(item, Setting(seeds=2, readings=240, jobs=jobs)).save(tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        for other in ("again", "two"):
            assert path.read_bytes() == (tmp_path / other / path.name).read_bytes(), path.name


def test_fig6_checks_the_statements_of_the_paper_one_by_one(small_items):
    made = small_items[0]["fig6"]
    assert set(made.table.attacker) == {
        "Sparse-HMM", "ALIP", "IP", "CO", "FHMM", "multi-shot", figure_attackers.BAYES,
        "all-off", "hold",
    }  # fmt: skip
    assert made.table.epsilon.nunique() >= 8
    assert set(made.table.interval_s) == {3.0, 60.0}
    details = dict(made.words.details)
    for every in ("3 s", "60 s"):
        for name in ("Sparse-HMM is best", "ALIP beats IP", "each is piecewise linear in ln(1/ε)"):
            said = details[f"{every}, “{name}”"]
            assert said.startswith(("holds: ", "does not hold: ", "undecided: "))
        magnitude = details[f"{every}, “the bounds give the magnitude for all seven”"]
        assert magnitude.startswith("does not hold: ")
    off = made.table[made.table.attacker == "all-off"]
    np.testing.assert_allclose(off.alpha, off.alpha_floor)
    labels = legend_of(made.figure)
    for limit in (figure_attackers.LIMIT_ONE, figure_attackers.LIMIT_SERIES):
        assert limit in labels
        assert made.table[limit].between(0, 1).all()
    assert "λ = Δf/ε = 10/ε W" in details["noise"]
    exact = made.table[made.table.expected.notna()]
    assert {"Sparse-HMM", "ALIP", "IP", "CO"} <= set(exact.attacker)
    assert details["60 s, certified E[α], multi-shot"].count("[") == 4


def test_figures_2_and_3_judge_rates_tightness_and_a_varying_tolerance(small_items):
    """Every statement has its verdict and its numbers, and is read back from the caption."""
    first = dict(small_items[0]["fig2"].words.details)
    for name in (
        "single switches, “the accuracy decreases at the rate 1/ε”",
        "single switches, “the upper bound is tight”",
        "own switches, “the lower bound is loose because the sensitivity varies in time”",
    ):
        assert first[name].startswith(("holds: ", "does not hold: "))
    assert "with δ_t at the same noise" in first[name]
    second = small_items[0]["fig3"].words.details
    rates = [value for name, value in second if "linear in ln(1/ε)”" in name]
    assert rates
    assert all("within a tenth of the mean slope" in value for value in rates)


def test_no_cause_is_printed_that_was_not_tested(small_items):
    for item, made in small_items[0].items():
        assert "because (P3)" not in made.caption
        if item in ("fig3", "fig4"):
            causes = [value for name, value in made.words.details if name == "tested cause"]
            assert len(causes) == 2
            named = "tested causes that cost accuracy" in made.words.reason
            assert named == any(cause.endswith("helps") for cause in causes)


@pytest.mark.slow
def test_fig6_with_all_seven_gives_the_same_bytes_twice(tmp_path):
    for name, jobs in (("one", 1), ("two", 2)):
        made = reproduce("fig6", Setting(seeds=2, readings=240, jobs=jobs))
        assert set(figure_attackers.PAPER) <= set(made.table.attacker)
        made.save(tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_the_simulated_dots_of_fig9_lie_on_the_exact_curves():
    made = reproduce("fig9", Setting(readings=4000))
    assert set(made.table.rule) == {"error", "all"}
    for axes in made.figure.axes[:2]:
        curves = [line for line in axes.lines if line.get_linestyle() != "None"]
        dots = [line for line in axes.lines if line.get_linestyle() == "None"]
        assert len(curves) == len(dots) == 4
        for curve, simulated in zip(curves, dots, strict=True):
            x, y = curve.get_data()
            found = np.interp(simulated.get_xdata(), x, y)
            # 4000 readings of 8 appliances: five standard errors are below 0.02
            np.testing.assert_allclose(simulated.get_ydata(), found, atol=0.02)
    rising = made.table[(made.table.kind == "exact") & (made.table.sparsity == 0.3)]
    ends = rising.groupby("rule").alpha.agg(["first", "last"])
    assert ends.loc["all", "last"] > ends.loc["all", "first"]
    assert ends.loc["error", "last"] < ends.loc["error", "first"]


def test_pictures_explain_themselves(small_items):
    """Domains of the printed bounds, circles and arrows, noise that coincides, what ε means."""
    made = small_items[0]
    assert "domain of the printed upper bound" in legend_of(made["fig2"].figure)
    texts = [text.get_text() for text in made["fig2"].figure.axes[0].texts]
    inside = dict(made["fig2"].words.details)["domain of Theorem 3"].endswith("inside")
    assert inside != any("outside the domain of Theorem 3" in text for text in texts)
    legend = legend_of(made["fig8"].figure)
    assert sum("a cluster of" in text for text in legend) == 2
    assert sum("move along the arrow" in text for text in legend) == 2
    laplace, staircase, _ = made["fig5"].figure.axes[0].lines[:3]
    assert laplace.get_linewidth() > 2 * staircase.get_linewidth()
    assert laplace.get_linestyle() != staircase.get_linestyle()
    for item in ("fig2", "fig3", "fig4", "fig5", "fig6", "appliances"):
        note = made[item].figure.legends[0].get_title().get_text()
        assert "times out of 100" in note, item


def test_each_panel_of_fig2_has_its_own_limit_and_floor(small_items):
    table = small_items[0]["fig2"].table
    assert table.panel.nunique() == 2
    for _, part in table.groupby("panel"):
        assert (part.exact <= part.universal_limit + 1e-9).all()
        assert (part.universal_limit >= part.nothing_switched - 1e-9).all()
        assert (part.exact >= part.corrected_lower.clip(0, 1) - 1e-9).all()
        assert (part.exact <= part.corrected_upper.clip(0, 1) + 1e-9).all()
        seen = part[part.measured.notna()]
        assert (seen.measured <= seen.universal_limit + 0.02).all()


def test_the_exact_series_of_fig3_is_that_of_the_simulation(small_items):
    made = small_items[0]["fig3"]
    (curve,) = [line for line in made.figure.axes[0].lines if line.get_label() == compressive.EXACT]
    rows = made.table[made.table.attacker == compressive.PLAIN]
    means = rows.groupby("epsilon").alpha.mean().sort_index(ascending=False)
    # 240 readings and two seeds
    np.testing.assert_allclose(means, curve.get_ydata(), atol=0.06)


@pytest.mark.parametrize(("seeds", "bands"), [(1, 0), (2, 0), (3, 1)])
def test_few_seeds_are_drawn_as_points(seeds, bands):
    table = pd.concat([rows_of("a").assign(alpha=0.8 + 0.01 * k, seed=k) for k in range(seeds)])
    axes = draw(table, measures=("alpha",)).axes[0]
    assert len(axes.collections) == bands
    points = [line for line in axes.lines if line.get_marker() == "."]
    assert [line.get_ydata().size for line in points] == ([4] if seeds == 2 else [])


def test_a_cut_axis_is_marked():
    high = draw(rows_of("a"), measures=("alpha",)).axes[0]
    assert high.get_ylim()[0] > 0.5
    assert any("the axis starts at 0.80" in text.get_text() for text in high.texts)
    low = draw(rows_of("a").assign(alpha=0.05), measures=("alpha",)).axes[0]
    assert low.get_ylim()[0] < 0
    assert not low.texts


def test_bands_are_95_percent_of_the_mean():
    table = pd.DataFrame({"epsilon": [1.0] * 4 + [0.1] * 4, "alpha": [0.5, 0.6, 0.7, 0.8] * 2})
    x, mean, half = mean_and_band(table, "alpha")
    np.testing.assert_allclose(x, [0.0, np.log(10)])
    np.testing.assert_allclose(mean, 0.65)
    found = ttest_1samp([0.5, 0.6, 0.7, 0.8], 0.0).confidence_interval(0.95)
    np.testing.assert_allclose(half, (found.high - found.low) / 2)
    assert mean_and_band(table[:1], "alpha")[2].tolist() == [0.0], "one seed has no band"


def rows_of(names, **more):
    return pd.DataFrame(
        [
            {"attacker": a, "epsilon": e, "alpha": 0.9, "alpha_floor": 0.8, "f1": 0.5, **more}
            for a in names
            for e in (1.0, 0.1)
        ]
    )


def draw(table, measures=("alpha", "f1"), **more):
    return draw_panels([SweepPanel(table, measure, **more) for measure in measures], "title")


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_every_attacker_has_a_line_and_the_floors_are_drawn():
    assert legend_of(draw(rows_of("abcdefghi"))) == [*"abcdefghi", "everything off"]
    both = draw(rows_of(["a", "all-off", "hold"], hold_floor=0.7))
    assert legend_of(both) == ["a", "everything off", "as at the first reading"]
    alpha, f1 = both.axes[:2]
    drawn = sorted(float(line.get_ydata()[0]) for line in alpha.lines)
    assert drawn == pytest.approx([0.7, 0.8, 0.9])
    assert len(f1.lines) == 3


def test_a_vacuous_bound_is_drawn_as_such():
    home = hm.synth.ready_home("similar8")
    found = bounds(home, np.array([1.0, 0.1]), readings=10**6, form="printed")
    assert np.asarray(found.lower.vacuous).all()
    figure = draw(rows_of("a"), measures=("alpha",), bounds={"Theorem 5": found})
    assert VACUOUS in legend_of(figure)
    crosses = [line for line in figure.axes[0].lines if line.get_marker() == "x"]
    assert all(y in (0.0, 1.0) for line in crosses for y in line.get_ydata())


def test_epsilon_stands_above_its_logarithm():
    figure = draw(rows_of("a"))
    top = figure.axes[0].child_axes[0]
    ticks = dict(zip([t.get_text() for t in top.get_xticklabels()], top.get_xticks(), strict=True))
    assert ticks["1"] == 0.0
    assert ticks["0.1"] == pytest.approx(np.log(10))


def test_an_unknown_figure_is_answered_with_the_nearest():
    with pytest.raises(hm.errors.InputError, match="did you mean 'fig2'"):
        reproduce("fig22", SMALL)
