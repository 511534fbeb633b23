"""Figures of readings."""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.plot import save_figure
from hushmeter.apps.plot.readings import (
    MOST_CUT_OUT,
    NAMES,
    draw_findings,
    has_days,
)
from hushmeter.trace import Trace


def draw(home, interval_s):
    trace = home.at(interval_s)
    found = hm.findings(trace, tz=home.zone)
    return found, *draw_findings(trace, found, "a home")


@pytest.fixture(scope="module")
def home():
    return hm.synth.household(days=21, habits=hm.synth.Habits(True, 2), seed=2)


def texts(figure):
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text)]


def test_every_kind_of_event_has_a_row_and_the_clearest_are_cut_out(home, tmp_path):
    found, figure, data = draw(home, 60)
    kinds = {finding.kind for finding in found.findings}
    assert {"away", "kettle", "fridge"} <= kinds
    written = texts(figure)
    for kind in kinds & set(NAMES):
        assert NAMES[kind] in written
    assert sum(text == "minutes" for text in written) == MOST_CUT_OUT
    paths = save_figure(figure, tmp_path, "trace", data)
    assert all(path.stat().st_size > 500 for path in paths.values())


def test_the_data_are_the_hours_with_their_findings(home):
    found, _, data = draw(home, 900)
    assert len(data["local_start"]) == len(data["mean_w"]) == len(data["findings"]) == 21 * 24
    hourly = home.at(3600).readings
    np.testing.assert_allclose(data["mean_w"], hourly)
    (away,) = found.of_kind("away")
    marked = sum("away" in kinds.split() for kinds in data["findings"])
    assert marked == np.diff(away.marks, axis=1).sum() / 3600


@pytest.mark.parametrize("interval_s", [900, 3600])
def test_homes_without_any_statement_can_be_drawn(interval_s, rng):
    count = 4 * 86_400 // interval_s
    trace = Trace(rng.uniform(100, 3000, count), interval_s, "2024-01-01T00:00Z")
    found = hm.findings(trace)
    figure, data = draw_findings(trace, found, "uneven $ nights")
    assert "uneven $ nights" in texts(figure)
    assert len(data["mean_w"]) == 96


def test_gaps_and_silence_stay_blank(rng):
    watts = rng.uniform(100, 900, 24 * 20)
    watts[100:160] = 230.0
    steps = np.arange(480) + 48 * (np.arange(480) > 300)
    trace = Trace(watts, 3600, "2024-01-01T00:00Z", steps=steps)
    _, data = draw_findings(trace, hm.findings(trace), "gaps")
    assert np.isnan(data["mean_w"]).sum() == 60 + 48


@pytest.mark.parametrize(
    ("interval_s", "days", "expected"), [(60, 1, False), (60, 3, True), (86_400, 300, False)]
)
def test_short_and_coarse_readings_are_a_line(interval_s, days, expected, rng):
    trace = Trace(rng.uniform(90, 900, days * 86_400 // interval_s), interval_s)
    assert has_days(trace, hm.findings(trace)) is expected


def test_a_silent_meter_is_a_line():
    trace = Trace(np.full(24 * 30, 230.0), 3600)
    assert not has_days(trace, hm.findings(trace))
