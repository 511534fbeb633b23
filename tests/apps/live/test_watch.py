"""What the household sees, and the strongest attacker against its own distribution."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from hushmeter.apps.live.state import WindowRow
from hushmeter.apps.live.stream import right_out_of, show_stream, watch_windows
from hushmeter.cli import app
from tests.apps.live.streams import Witness, make_terms, make_trace, run_table, write_table


@pytest.fixture
def state(tmp_path):
    table = write_table(tmp_path / "meter.csv", make_trace(1))
    run_table(table, make_terms(), tmp_path / "s.db", [Witness()])
    return tmp_path / "s.db"


def test_raw_and_protected_values_are_shown(state):
    done = CliRunner().invoke(app, ["live", "--watch", "--once", "--state", str(state)])
    assert done.exit_code == 0
    assert done.stdout.count("2024-03-01T") == 24
    assert "that attacker would be right" in done.stdout
    answer = CliRunner().invoke(app, ["live", "--watch", "--json", "--state", str(state)])
    shown = json.loads(answer.stdout)
    raw = make_trace(1).coarsen(3600.0).readings
    assert [window["raw_w"] for window in shown["windows"]] == pytest.approx(raw.tolist())
    assert CliRunner().invoke(app, ["live", "--watch", "--state", "none.db"]).exit_code == 1


def test_the_summary_of_a_day_is_private(state):
    path = state.with_name("s.db.days") / "2024-03-01.private.json"
    assert path.stat().st_mode & 0o077 == 0
    summary = json.loads(path.read_text())
    assert len(summary["windows"]) == 24
    assert summary["receipt"]["output"]["readings"] == 24
    assert summary["attacker_right"] == show_stream(state)["right"]


@pytest.mark.parametrize("mechanism", ["laplace", "staircase", "gaussian"])
def test_the_attacker_is_right_as_often_as_its_distribution_allows(mechanism):
    # Beliefs are calibrated: among windows with belief p, a share of about p had the use.
    terms = make_terms(mechanism=mechanism)
    count, change = 20_000, terms.unit.largest
    noise = terms.promise.noise
    values = noise.release(np.full(count, 500.0), rng=1)
    rows = [
        WindowRow(n, "2024-03-01", 1.0, 500.0, v, round(v / noise.grid))
        for n, v in enumerate(values.tolist())
    ]
    windows = watch_windows(terms, rows, [])
    ran = np.array([window.if_it_ran for window in windows])
    # E[1/p − 1] under "it ran" is the total mass of the other distribution, which is 1.
    ratio = 1 / ran - 1
    spread = ratio.std() / np.sqrt(count)
    assert abs(ratio.mean() - 1) < 5 * spread
    right = right_out_of(windows)
    shift = round(change / noise.grid)
    steps = np.arange(-40 * shift, 40 * shift + 1)
    pmf = noise.pmf
    best = 0.5 + 0.25 * np.abs(pmf(steps) - pmf(steps - shift)).sum()
    assert right == pytest.approx(best, abs=5 * 0.5 / np.sqrt(count))
