from __future__ import annotations

import pytest

from hushmeter.apps.study.sweep import run_study

STUDY = """
name = "small"
seed = 3
seeds = 2
epsilon = "0.05:10:6"
mechanism = ["laplace", "gaussian"]
protect = "appliance"

[[case]]
home = "home.toml"
readings = 300
sparsity = 0.97
interval = "60s"

[[attacker]]
name = "all-off"

[[attacker]]
name = "hold"

[[attacker]]
name = "co"

[[attacker]]
name = "bayes"
"""
HOME = """
name = "three & more"
tolerance = 10.0

[[appliance]]
name = "kettle"
power = 2000.0
run_s = 180
runs_per_day = 30

[[appliance]]
name = "<script>"
power = 900.0
run_s = 1800
runs_per_day = 10

[[appliance]]
name = 'the "old" fridge & co'
power = 150.0
"""


@pytest.fixture(scope="session")
def swept(tmp_path_factory):
    """A folder with study.toml, home.toml and results/, its results; names that need escaping."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    (folder / "home.toml").write_text(HOME, encoding="utf-8")
    run_study(folder / "study.toml", folder / "results", jobs=1, resume=False)
    return folder
