from __future__ import annotations

import matplotlib as mpl
import pytest

import hushmeter as hm
from hushmeter.apps.plot import figure_place, new_figure, plain_log_ticks, save_figure
from hushmeter.errors import InputError


@pytest.fixture
def figure():
    made = new_figure(3, 2)
    made.subplots().plot([1.0, 2.0, 4.0])
    return made


def test_figures_and_their_data_are_saved_and_kept(figure, tmp_path):
    paths = save_figure(figure, tmp_path, "line", {"watts": [1.0, 2.0, 4.0]})
    assert sorted(path.name for path in paths.values()) == ["line.csv", "line.png", "line.svg"]
    assert paths["csv"].read_text().split() == ['"watts"', "1", "2", "4"]
    with pytest.raises(hm.errors.DataError, match="exists"):
        save_figure(figure, tmp_path, "line", {"watts": [1.0]})


def test_a_name_is_no_formula(tmp_path):
    """Names from files may hold “$”: taken for a formula they vanish, or end the command."""
    name = r"costs $5, $6 or $\frac{ $"
    made = new_figure(4, 3)
    axes = made.subplots()
    axes.loglog([1.0, 1e5], [1.0, 2.0], label=name)
    axes.set_title(name)
    axes.set_yticks([1.0], [name])
    axes.legend()
    with mpl.rc_context({"svg.fonttype": "none"}):
        drawn = save_figure(made, tmp_path, "line", {"watts": [1.0]})["svg"].read_text("utf-8")
    assert drawn.count(name) == 3
    assert ">$\\mathdefault" not in drawn  # but for comments, powers of ten are set


def test_the_same_figure_gives_the_same_bytes(figure, tmp_path):
    first, again = (
        save_figure(figure, tmp_path / name, "line", {"watts": [1.0]}) for name in ("one", "two")
    )
    for kind, path in first.items():
        assert path.read_bytes() == again[kind].read_bytes()


def test_the_place_of_a_figure(tmp_path):
    assert figure_place(tmp_path / "a.png", "b") == (tmp_path, "a")
    assert figure_place(tmp_path, "b") == (tmp_path, "b")
    assert figure_place(tmp_path / "run 1.2", "b") == (tmp_path / "run 1.2", "b")
    with pytest.raises(InputError, match=r"a\.pdf must be a folder or end in \.png"):
        figure_place(tmp_path / "a.pdf", "b")


@pytest.mark.parametrize(("top", "ticks"), [(20.0, 5), (2e4, 5)])
def test_ticks_of_a_logarithmic_axis_are_few_plain_numbers(top, ticks):
    axes = new_figure(3, 2).subplots()
    axes.set_xscale("log")
    axes.set_xlim(1.0, top)
    plain_log_ticks(axes.xaxis)
    shown = [
        label.get_text() for label in axes.get_xticklabels() if 1 <= label.get_position()[0] <= top
    ]
    assert len(shown) == ticks
    assert [float(text) for text in shown] == sorted(float(text) for text in shown)
    assert "$" not in "".join(shown)
