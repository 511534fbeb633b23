"""The table of the kinds of release: measured errors beside the stated ones, and its receipts."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.release_options import (
    OPTIONS,
    compare_options,
    options_markdown,
    purpose_values,
    read_homes,
)

import hushmeter as hm
from hushmeter.releases.labels import cells_of
from hushmeter.releases.purposes import PURPOSES
from tests.cli.test_commands import run
from tests.experiments.conftest import run_experiment


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("receipts")
    homes = read_homes(None)
    return compare_options(homes, appliances=["kettle"], draws=12, receipts=folder), folder


@pytest.mark.slow
def test_the_errors_of_a_release_are_those_it_states(table):
    found = table[0].set_index(["option", "purpose"])
    # Twelve draws; the month and the register are one sum a draw.
    slack = {"hour": 0.05, "day": 0.2, "profile": 0.2, "month": 0.75, "register": 0.75}
    for option in ("independent", "calendar"):
        for purpose, most in slack.items():
            row = found.loc[option, purpose]
            assert row.rmse == pytest.approx(row.stated, rel=most), (option, purpose)
        assert 0.599 < found.loc[option].odds.iloc[0] <= 0.6
    # The calendar serves all purposes but the hour better, and restoring improves the hour.
    for purpose in ("day", "month", "profile", "register"):
        assert found.rmse["calendar", purpose] < found.rmse["independent", purpose]
    assert found.rmse["restored", "hour"] < found.rmse["independent", "hour"]


@pytest.mark.slow
def test_the_receipts_of_every_release_are_kept(table):
    place = table[1] / "evening" / "kettle"
    for name in ("independent.csv", "calendar"):
        # Everything else is checked first: the one problem is that the noise can be repeated.
        problems = run("verify", place / name, expect=1).stderr.splitlines()
        assert len(problems) == 1
        assert "is a simulation, not a release" in problems[0]
    assert (place / "restored.csv.restored.json").is_file()


@pytest.mark.slow
def test_the_table_has_a_row_for_every_kind_of_release(table):
    lines = options_markdown(table[0]).splitlines()
    assert len(lines) == 2 + 1 + len(OPTIONS)
    assert lines[2].startswith("| evening | kettle | *own use* |")
    assert lines[3].count("(") == len(PURPOSES)


def test_the_numbers_of_every_purpose_follow_from_the_cells():
    cells = np.arange(48.0)
    trace = hm.Trace(cells, 3600.0, "2024-01-30T00:00Z")
    values = purpose_values(cells_of(hm.metered(trace), None), cells)
    assert values["day"].tolist() == pytest.approx([0.276, 0.852])
    assert values["month"].tolist() == pytest.approx([1.128])
    assert values["profile"].tolist() == pytest.approx([h + 12 for h in range(24)])
    assert values["register"][-1] == pytest.approx(1.128)


def test_bad_folders_are_one_sentence(tmp_path):
    done = run_experiment("options", "--data", tmp_path / "no", "-o", tmp_path, expect=1)
    assert done.stderr == (
        f"experiments: {tmp_path}/no is not a folder; name the folder of the data sets.\n"
    )
