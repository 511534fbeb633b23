"""The sweep: two workers against one, and the memory of a day at 1 Hz.

Both are measured in processes of their own. Other work on the machine lowers the first ratio:
measure on a quiet one.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.harness import Row, together
from hushmeter import synth
from hushmeter.apps.study.sweep import Case, Contender, Study, split_trace, sweep

DAY = 86_400
LIMIT_MB = 2000
CONTENDERS = ("multi-shot", "hierarchical", "co", "sparse-hmm", "fhmm", "bayes")


def make_study(readings: int, epsilons: int, seeds: int, *, interval_s: float = 6.0) -> Study:
    """A study of a synthetic home by the attackers that need no network."""
    names = ["lamps", "television", "fridge", "heat pump", "kettle", "oven", "car charger"]
    home = synth.ready_home("evening").subset(names)
    trace = synth.trace(home, readings + 20_000, interval_s=interval_s, seed=0)
    train, test = split_trace(trace, 20_000 / len(trace))
    grid = tuple(10.0 ** (1 - i) for i in range(epsilons))
    contenders = tuple(Contender(name, name) for name in CONTENDERS)
    return Study(
        "bench", (Case("home", home, train, test),), contenders, epsilons=grid, seeds=seeds
    )


def rows() -> Iterator[Row]:
    """All ratios of the study."""
    yield workers()
    yield memory_of_a_day()


def workers() -> Row:
    """Cells per second with two workers, which have to start first, against one."""
    # A study of a few seconds would measure how long the workers take to start.
    seeds = 12
    study = make_study(DAY, epsilons=4, seeds=seeds)
    cells = len(CONTENDERS) * 4 * seeds
    one, two = together(lambda: sweep(study, jobs=1), lambda: sweep(study, jobs=2), repeat=2)
    note = f"{cells / two:.1f} against {cells / one:.1f} cells/s"
    return Row("sweep with -j 2: cells a second", one / two, "-j 1", 1.6, note)


def memory_of_a_day() -> Row:
    """Peak memory of a sweep over a day at 1 Hz, all its processes added up; shared pages count
    more than once.
    """
    code = (
        "from benchmarks.bench_study import day_peak_mb\n"
        "if __name__ == '__main__':\n    print(day_peak_mb())"
    )
    # A process counts the peak of the one it was forked from: a small shell stands between.
    command = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak = float(done.stdout.split()[-1])
    note = f"{peak:.0f} MB at most, {DAY} readings, two workers"
    return Row("sweep of a 1-Hz day: memory", peak / LIMIT_MB, f"{LIMIT_MB} MB", 1.0, note, True)


def day_peak_mb() -> float:
    """Peak [MB] of this process and of its workers, each taken to hold as much as the largest."""
    workers = 2
    sweep(make_study(DAY, epsilons=2, seeds=1, interval_s=1.0), jobs=workers)
    own, child = (
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return (own + workers * child) / 1024
