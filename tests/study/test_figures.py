from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import hushmeter as hm
from hushmeter.plot_study import draw_sweep, summarise
from hushmeter.study.figures import ITEMS, Setting, reproduce

SMALL = Setting(seeds=2, readings=240)
QUICK = [item for item in ITEMS if item != "fig6"]


@pytest.mark.parametrize("item", QUICK)
def test_every_item_has_data_a_picture_and_a_verdict(item, tmp_path):
    made = reproduce(item, SMALL)
    assert len(made.table) > 2
    for word in (
        "The paper:",
        "Here:",
        "Verdict:",
        "synthetic",
    ):
        assert word in made.caption
    kinds = {path.suffix for path in made.save(tmp_path)}
    assert kinds == ({".csv", ".txt"} if item == "table1" else {".png", ".svg", ".csv", ".txt"})


def test_a_second_run_writes_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        for item in ("fig3", "fig9"):
            reproduce(item, SMALL).save(tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_the_simulated_dots_of_fig9_lie_on_the_exact_curves():
    made = reproduce("fig9", Setting(readings=4000))
    axes = made.figure.axes[0]
    curves = [line for line in axes.lines if line.get_linestyle() == "-"]
    dots = [line for line in axes.lines if line.get_linestyle() == "None"]
    assert len(curves) == len(dots) == 4
    for curve, simulated in zip(curves, dots, strict=True):
        x, y = curve.get_data()
        found = np.interp(simulated.get_xdata(), x, y)
        # 4000 readings of 8 appliances: five standard errors are below 0.02
        np.testing.assert_allclose(simulated.get_ydata(), found, atol=0.02)


def test_bands_are_95_percent_of_the_mean():
    table = pd.DataFrame({"epsilon": [1.0] * 4 + [0.1] * 4, "alpha": [0.5, 0.6, 0.7, 0.8] * 2})
    x, mean, half = summarise(table, "alpha")
    np.testing.assert_allclose(x, [0.0, np.log(10)])
    np.testing.assert_allclose(mean, 0.65)
    np.testing.assert_allclose(half, 1.96 * np.std([0.5, 0.6, 0.7, 0.8], ddof=1) / 2)


def test_every_attacker_has_a_line_and_the_floor_is_drawn():
    rows = [
        {"attacker": a, "epsilon": e, "alpha": 0.9, "alpha_floor": 0.8, "f1": 0.5}
        for a in "abcdefghi"
        for e in (1.0, 0.1)
    ]
    figure = draw_sweep(pd.DataFrame(rows), "title")
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [*"abcdefghi", "everything off"]


def test_an_unknown_figure_is_answered_with_the_nearest():
    with pytest.raises(hm.errors.InputError, match="did you mean 'fig2'"):
        reproduce("fig22", SMALL)
