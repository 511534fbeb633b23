"""Shared fixtures: one seed, ready homes, real data where it lies beside the project."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from pathlib import Path

# The workers share the cores, and their threads of linear algebra would wait for each other: a
# Cholesky factor of 100 rows then takes a hundred times as long. NumPy reads this when it loads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.databases"]

settings.register_profile(
    "hushmeter",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("hushmeter")


GROUPS = {
    "tests/apps/study/test_demo_command.py": "demo",
    "tests/experiments/test_reproduction_page.py": "figures",
    "tests/apps/fleet/test_spark.py": "spark",
    "tests/apps/study/report/test_sections.py": "sections",
    "tests/apps/study/test_figures.py": "figures",
    "tests/test_public.py": "public",
    "tests/apps/page/test_other_user.py": "other user",
    "tests/apps/page/test_page.py": "page",
    "tests/apps/page/test_schema.py": "schema",
    "tests/apps/page/test_texts.py": "texts",
}
"""Files whose tests share an expensive fixture and therefore one worker."""


MEMORY, NEEDED_BYTES = Path("/dev/shm"), 4 << 30
"""Where temporary files lie if there is so much space."""


def pytest_configure(config):
    """Keep temporary files in memory: ledgers and states wait for a disk after every commit.

    What a disk keeps when the power fails is tested in test_power_cut.py, on a disk of its own.
    """
    usable = os.access(MEMORY, os.W_OK) and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    if "TMPDIR" not in os.environ and usable and shutil.disk_usage(MEMORY).free > NEEDED_BYTES:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
    # No test writes into the folder of the user. It is made when something is released.
    os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="hushmeter-data-")
    if hasattr(config, "cache"):
        config.pluginmanager.register(LongestFirst(config))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """One worker more than cores: brokers, browsers and discs keep a part of the tests waiting."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each test to the next free worker, and each group to one worker.

    The mark `xdist_group` would do the same, but pytest 9.2 ignores the name that pytest-xdist 3.8
    gives to a marked test.
    """
    from xdist.scheduler import LoadGroupScheduling

    class ByGroup(LoadGroupScheduling):
        def _split_scope(self, nodeid):
            return GROUPS.get(nodeid.split("::")[0], nodeid)

    return ByGroup(config, log)


LONG_S = 8.0
"""Duration of a test [s] from which it is started before all shorter ones."""

DURATIONS = "hushmeter/durations"
"""Place of the durations of the last run in pytest's cache."""


def longest_first(names: list[str], took: dict[str, float]) -> list[int]:
    """Places of tests in the order in which they start: long ones first, all others as they are."""
    lengths = [took.get(name, 0.0) for name in names]
    return sorted(range(len(names)), key=lambda i: -lengths[i] if lengths[i] >= LONG_S else 0.0)


class LongestFirst:
    """Starts the tests that were the longest in the last run first.

    At the end of the queue, one of them would keep a worker busy while the others have nothing left
    to do.
    """

    def __init__(self, config):
        self.config, self.took = config, dict(config.cache.get(DURATIONS, {}))
        self.is_worker = hasattr(config, "workerinput")
        self.running: dict[str, float] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        if self.is_worker:
            order = longest_first([item.nodeid for item in items], self.took)
            items[:] = [items[i] for i in order]

    def pytest_runtest_logreport(self, report):
        self.running[report.nodeid] = self.running.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self):
        if not self.is_worker:
            self.config.cache.set(DURATIONS, self.took | self.running)


def pytest_unconfigure():
    shutil.rmtree(os.environ["XDG_DATA_HOME"], ignore_errors=True)


@pytest.fixture(autouse=True)
def own_register(monkeypatch):
    """Every test has a register of releases of its own."""
    name = secrets.token_hex(8)
    monkeypatch.setenv("XDG_DATA_HOME", f"{os.environ['XDG_DATA_HOME']}/{name}")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_240_115)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets, or a skip with the reason."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("HUSHMETER_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; name a folder in HUSHMETER_DATA")
    return folder


@pytest.fixture(scope="session")
def small_items(tmp_path_factory):
    """Every item on its stand-in, the files of each, and the folder they are saved in."""
    from tests.apps.study.items import make_small_items

    made, folder = make_small_items(), tmp_path_factory.mktemp("items")
    return made, {item: one.save(folder) for item, one in made.items()}, folder
