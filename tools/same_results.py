"""`python -m tools.same_results`: are the results of two versions of the source the same?

`run SRC -o FILE` runs the source tree SRC through the public names and commands and writes digests
and numbers: releases with a fixed key and their public receipts, the states that every attacker
predicts, bounds and advice, a sweep, the data of the paper's figures on stand-ins, what the
commands print as JSON, and what becomes of real meter files. `compare A B` lists what differs.

    python -m tools.same_results run src -o after.json
    python -m tools.same_results compare before.json after.json

Real data is looked for in $HUSHMETER_DATA or ../shared/data; a section says that it was skipped.
Only documented names are used, so that the program runs with versions that are laid out otherwise.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("HUSHMETER_DATA", ROOT.parent / "shared" / "data"))
KEY = bytes(range(32))
MECHANISMS = ("laplace", "staircase", "gaussian")
FIGURES = ("fig2", "fig3", "fig4", "fig5", "fig7", "fig8", "fig9", "table1")
# The networks are small here: their training takes minutes otherwise.
PARAMETERS: dict[str, dict[str, Any]] = {
    "rnn": {"settings": {"epochs": 1}},
}
PEAK = "peak = weekdays 16:00-21:00"
CRASHED = "crashed"
Case = tuple[str, Any]


def digest(array: Any) -> dict[str, Any]:
    """Digest of an array with a few of its numbers, from which a reader sees what changed."""
    import numpy as np

    values = np.ascontiguousarray(array)
    found = hashlib.sha256(str((values.shape, values.dtype.str)).encode() + values.tobytes())
    finite = values[np.isfinite(values)].astype(float)
    return {
        "shape": list(values.shape),
        "sum": float(finite.sum()),
        "first": [float(value) for value in finite.ravel()[:3]],
        "sha256": found.hexdigest()[:16],
    }


def attempt(make: Callable[[], Any]) -> Any:
    """The result, or the sentence with which it was refused; any other error is a crash."""
    from hushmeter.errors import HushmeterError

    try:
        return make()
    except HushmeterError as error:
        return {"refused": str(error)}
    except Exception as error:
        return {CRASHED: f"{type(error).__name__}: {error}"}


def requests() -> Iterator[tuple[str, dict[str, Any], str]]:
    """Name, words and kind of readings of the requests that are released."""
    for mechanism in MECHANISMS:
        for span in ("reading", "run", "day"):
            stated = {"protect": "appliance", "appliance": "kettle", "span": span, "epsilon": 1}
            use = {"use": "30min"} if span == "day" else {}
            words = {**stated, **use, "mechanism": mechanism}
            yield f"{mechanism} {span}", words, "minutes"
            yield f"{mechanism} {span} of half hours", {**words, "every": "30min"}, "minutes"
        change = {"protect": "change", "watts": 500, "epsilon": "0.3", "mechanism": mechanism}
        yield f"{mechanism} change", {**change, "grid": 10}, "minutes"
        yield f"{mechanism} range", {
            "protect": "range", "clamp": (0, 5000), "epsilon": 2, "mechanism": mechanism,
        }, "minutes"  # fmt: skip
        yield f"{mechanism} fluctuation", {
            "protect": "fluctuation", "epsilon": 2, "mechanism": mechanism, "clamp": (0, 12000),
        }, "gaps"  # fmt: skip
        yield f"{mechanism} hide", {"hide": "kettle", "mechanism": mechanism}, "minutes"
        yield f"{mechanism} hide in gaps", {"hide": "oven", "mechanism": mechanism}, "gaps"
        yield f"{mechanism} when", {
            "hide": "kettle", "span": "when", "use": "30min", "mechanism": mechanism,
        }, "resolution"  # fmt: skip
    wish = {"hide": "kettle 2100 W 180 s", "odds": 60}
    for purpose in ("hour", "day", "month", "profile", "register"):
        yield f"hide for {purpose}", {**wish, "purpose": purpose}, "minutes"
    for kind in ("minutes", "gaps", "half hours", "zone", "resolution"):
        yield f"hide in {kind}", wish, kind
        yield f"views of {kind}", {**wish, "tables": ["views"]}, kind
    tables = {
        "band": ["hours", "days", PEAK],
        "band alone": ["days", PEAK],
        "week": ["hours", "typical-week"],
        "year": ["hours", "months", "year"],
        "register": ["hours", "days", "register"],
        "days alone": ["days", "months"],
        "typical day": ["typical-day", "typical-week"],
    }
    for name, words in tables.items():
        yield f"table {name}", {**wish, "tables": words}, "zone"
        stated = {"protect": "change", "watts": 800, "span": "day", "use": "2h", "epsilon": 1}
        yield f"table {name} with ε", {**stated, "tables": words}, "gaps"
    yield "hourly cost", {**wish, "tables": ["views"], "hourly_cost": 1.5}, "minutes"
    yield "two appliances", {"hide": "kettle, oven", "odds": 55, "clamp": (0, 9000)}, "minutes"


def readings_of(kind: str) -> tuple[Any, str]:
    """A synthetic trace and its time zone: minutes, with gaps, half hours, in a zone, rounded."""
    import numpy as np

    import hushmeter as hm

    home = hm.synth.ready_home("evening")
    every = {"half hours": 1800.0, "zone": 3600.0}.get(kind, 60.0)
    days = 45 if kind == "zone" else 4
    trace = hm.synth.trace(home, int(days * 86400 / every), interval_s=every, seed=11)
    if kind == "gaps":
        kept = np.ones(len(trace), dtype=bool)
        kept[500:560], kept[2000], kept[4000:5500] = False, False, False
        trace = trace.select(np.flatnonzero(kept))
    if kind == "resolution":
        rounded = np.round(trace.readings / 10) * 10
        trace = hm.Trace(
            rounded,
            interval_s=every,
            start="2024-03-30T23:00Z",
            metering=hm.Metering(resolution_w=10.0),
        )
    return trace, "Europe/Berlin" if kind == "zone" else "UTC"


def run_releases() -> Iterator[Case]:
    """Released values, receipts and estimates of many requests, with one fixed key."""
    import hushmeter as hm

    home = hm.synth.ready_home("evening")
    traces = {
        kind: readings_of(kind) for kind in ("minutes", "gaps", "half hours", "zone", "resolution")
    }

    def release(words: dict[str, Any], kind: str) -> Any:
        trace, zone = traces[kind]
        given = words if "hide" in words else {"home": home, **words}
        promise = hm.Request(**given).resolve(hm.metered(trace, zone))
        done = promise.release(trace, key=KEY)
        restored = attempt(lambda: digest(hm.restore(done).trace.readings))
        return {
            "released": [digest(sums) for sums in done.sums],
            "estimate": digest(done.estimate),
            "views": {name: digest(done.view(name).values) for name in done.view_names},
            "receipt": done.receipt.to_dict(),
            "restored": restored,
            "sentences": promise.sentences,
            "odds": promise.odds,
        }

    for name, words, kind in requests():
        yield name, attempt(partial(release, words, kind))
    trace, _ = traces["minutes"]
    for name in MECHANISMS:
        unit = hm.resolve_unit("appliance", "run", interval_s=60.0, home=home, appliance="oven")
        mechanism = hm.calibrate(name, 1.0, unit)
        done = hm.release(trace, mechanism, unit, home=home, rng=5)
        yield f"hm.release {name}", {**digest(done.trace.readings), "noise": str(mechanism)}
        accounts = hm.account(mechanism, home, readings=1440, delta=1e-6)
        yield f"hm.account {name}", str(accounts)
        yield f"pmf {name}", [mechanism.pmf(k) for k in (0, 1, 5, 100)]


def real_homes() -> Iterator[tuple[str, Any, Any, int]]:
    """Name, home, trace and length of the training part: one synthetic home and two real ones."""
    import numpy as np
    import pandas as pd

    import hushmeter as hm

    home = hm.synth.ready_home("evening")
    yield "synthetic", home, hm.synth.trace(home, 2100, interval_s=60.0, seed=4), 1800
    slices = {
        "redd 1": ("redd/redd_house1_3s.parquet", slice(60_000, 102_000, 20)),
        "refit 2": ("mains/refit_house2_1min.parquet", slice(13_500, 15_600)),
    }
    for name, (file, rows) in slices.items():
        if not (DATA / file).exists():
            yield name, None, None, 0
            continue
        table = pd.read_parquet(DATA / file).iloc[rows].reset_index(drop=True).fillna(0.0)
        power = table.drop(columns=["timestamp", "aggregate"])
        power = power.loc[:, (power > 30).mean() > 0.002]
        power = power[power.max().sort_values().index[-6:]].to_numpy(float)
        names = [f"load {i}" for i in range(power.shape[1])]
        states = power > 30
        levels = [float(np.median(power[states[:, i], i])) for i in range(len(names))]
        found = hm.Home(
            [hm.Appliance(n, level) for n, level in zip(names, levels, strict=True)], 20.0
        )
        trace = hm.Trace(
            table["aggregate"].to_numpy(float),
            interval_s=60.0,
            start="2024-01-01T00:00Z",
            states=states,
            power=power,
            names=names,
        )
        yield name, found, trace, 1800


def run_attackers() -> Iterator[Case]:
    """States that every attacker predicts, without noise and from a release that it knows."""
    import hushmeter as hm

    for place, home, trace, cut in real_homes():
        if home is None:
            yield place, f"skipped: no data of {place} in {DATA}"
            continue
        for name in hm.attackers:
            parts = trace[:cut], trace[cut:]
            yield f"{name} on {place}", attempt(partial(attack, name, home, *parts))


def attack(name: str, home: Any, train: Any, test: Any) -> dict[str, Any]:
    """Digest and scores of the states that one attacker predicts."""
    import hushmeter as hm

    mechanism = hm.Laplace(epsilon=2.0, sensitivity=float(max(home.powers)), grid=1.0)
    noisy = test.replace_readings(mechanism.release(test.readings, rng=3))
    attacker = hm.attackers[name](home, **PARAMETERS.get(name, {})).fit(train)
    found = {}
    for kind, readings in (("plain", test), ("noisy", noisy)):
        knowing = attacker.knows(mechanism) if kind == "noisy" else attacker
        states = knowing.predict(readings, initial_state=test.states[0], rng=0)
        score = hm.score(states, test)
        found[kind] = {**digest(states), "alpha": score.alpha, "f1": score.f1}
        for method in ("predict_power", "predict_proba"):
            if hasattr(knowing, method):
                answer = getattr(knowing, method)(readings, initial_state=test.states[0], rng=0)
                found[kind][method] = digest(answer.round(9))
    return found


def run_theory() -> Iterator[Case]:
    """Bounds, exact accuracies, limits and solvers of the paper, and advice."""
    import numpy as np

    import hushmeter as hm

    for name in ("evening", "similar8"):
        # Bounds and exact accuracies are known for one power of each appliance.
        home = hm.synth.ready_home(name).one_power_each()
        for epsilon in (0.1, 1.0, 10.0):
            for form in ("corrected", "printed"):
                both = hm.bounds(
                    home, epsilon=epsilon, sensitivity=100.0, max_switches=2, form=form
                )
                yield f"bounds {name} {epsilon} {form}", [both.lower.raw, both.upper.raw]
            mechanism = hm.Laplace(epsilon=epsilon, sensitivity=2100.0)
            yield f"limit {name} {epsilon}", hm.universal_limit(home, mechanism=mechanism).tolist()
            switched = [1] + [0] * (len(home.powers) - 1)
            yield (
                f"exact {name} {epsilon}",
                hm.exact_accuracy(home, switched=switched, mechanism=mechanism),
            )
        jumps = np.abs(np.random.default_rng(2).normal(0, 2000, 300))
        solve = hm.attack.one_shot
        relaxed = solve.solve_relaxed(home.powers, jumps, 20.0)
        yield f"P3 {name}", digest(np.round(relaxed, 9))
        yield f"P1 {name}", digest(solve.solve_exact(home.powers, jumps, 20.0))
        groups = hm.attack.hierarchical.split(home.powers, 20.0)
        yield f"groups {name}", [group.tolist() for group in groups]
    for wish in ("kettle", "heat pump 1.7 kW", "car charger 7.4 kW"):
        advice = hm.advise(hm.Request(hide=wish), hm.Metered(900))
        yield f"advice {wish}", str(hm.explain(advice))
    home = hm.synth.ready_home("evening")
    learnt = hm.learn_home(hm.synth.trace(home, 4 * 1440, interval_s=60.0, seed=8))
    yield "learnt home", dict(zip(learnt.home.names, learnt.home.powers, strict=True))
    found = hm.findings(hm.synth.trace(home, 14 * 1440, interval_s=60.0, seed=9))
    yield "findings", str(found)
    from hushmeter.apps.behaviour import KMedians

    values = np.random.default_rng(6).random((200, 24))
    yield "K-medians", digest(KMedians(4, random_state=1).fit(values).cluster_centers_)


def run_study() -> Iterator[Case]:
    """A small sweep, and the data of the paper's figures on stand-ins."""
    import pandas as pd

    import hushmeter as hm

    study = """
name = "small"
seed = 3
seeds = 2
epsilon = [10, 0.1]
mechanism = ["laplace", "staircase", "gaussian"]
[[case]]
home = "similar8"
readings = 200
sparsity = 0.98
""" + "".join(f'[[attacker]]\nname = "{name}"\n' for name in ("multi-shot", "bayes", "co"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "study.toml")
        path.write_text(study, encoding="utf-8")
        table = hm.sweep(path).drop(columns="seconds")
        yield "sweep", columns(table)
        for item in FIGURES:
            words = ["reproduce", item, "--seeds", "2", "--readings", "240", "-o", folder]
            done = command(words, folder)
            if not isinstance(done, str):
                yield item, done
                continue
            data = Path(folder).glob(f"{item}*.csv")
            yield item, {p.name: columns(pd.read_csv(p)) for p in sorted(data)}


def columns(table: Any) -> dict[str, Any]:
    """Digest of every column of a table; words are kept as a digest of their text."""
    found = {}
    for name in table.columns:
        column = table[name]
        if column.dtype.kind in "fiub":
            found[name] = digest(column.to_numpy())
        else:
            text = "|".join(map(str, column))
            found[name] = f"{len(column)} texts, {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return found


def command(words: list[str], folder: str) -> Any:
    """What a command prints: its JSON, its text, or its exit code with the message."""
    done = subprocess.run(
        [sys.executable, "-m", "hushmeter", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"exit": done.returncode, "message": " ".join(done.stderr.split())}
    return done.stdout


def run_commands() -> Iterator[Case]:
    """What commands print as JSON, for a synthetic file of readings."""
    import hushmeter as hm

    home = hm.synth.ready_home("evening")
    trace = hm.synth.trace(home, 7 * 1440, interval_s=60.0, seed=5)
    lines = {
        "inspect": "inspect meter.csv --json",
        "advise": "advise meter.csv --hide kettle --json",
        "bounds": "bounds similar8 -e 0.1,1 --json",
        "learn": "learn sub.csv -o home.toml --json",
        "attack": "attack meter.csv --home evening -a multi-shot -o states.csv --json",
        "price": "price --home evening --trace meter.csv --json",
        "battery": "battery meter.csv --home evening -e 1 --capacity 10 --power 5 --json",
        "refusal of a missing file": "inspect nowhere.csv --json",
        "refusal of a wrong option": "release meter.csv --hide kettle --odds 2000 -o out.csv",
        "refusal without a wish": "release meter.csv -o out.csv",
    }
    with tempfile.TemporaryDirectory() as folder:
        hm.write_meter(Path(folder, "meter.csv"), hm.Trace(trace.readings, interval_s=60.0))
        hm.write_meter(Path(folder, "sub.csv"), trace)
        for name, line in lines.items():
            found = command(line.split(), folder)
            if isinstance(found, str):
                text = found.replace(folder, "FOLDER")
                found = attempt(partial(json.loads, text))
            yield name, found


def read(path: Path) -> dict[str, Any]:
    """Digest of the readings of a file."""
    import hushmeter as hm

    return digest(hm.read_meter(path).readings)


def run_files() -> Iterator[Case]:
    """What becomes of real meter files: the values that are read, and the verdicts of check.py."""
    for corpus in ("meterfiles", "meterfiles2"):
        folder = DATA / corpus
        checks = (folder / "check.py", DATA / "meterfiles" / "check.py")
        check = next((path for path in checks if path.exists()), None)
        if not folder.is_dir() or check is None:
            yield corpus, f"skipped: there is no {folder} with check.py"
            continue
        for path in sorted(folder.iterdir()):
            if path.suffix not in {".py", ".md"} and "truth" not in path.name:
                yield f"{corpus}/{path.name}", attempt(partial(read, path))
        with tempfile.TemporaryDirectory() as place:
            program = Path(place, "hushmeter")
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hushmeter "$@"\n')
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            done = subprocess.run(
                [sys.executable, str(check), str(program), str(folder)],
                capture_output=True,
                text=True,
                check=False,
            )
        for line in done.stdout.splitlines():
            verdict, _, rest = line.partition(" ")
            name, _, text = rest.strip().partition(": ")
            if verdict in {"right", "refused", "WRONG", "CRASHED"}:
                yield f"{corpus}/check.py/{name}", [verdict, text]
            else:
                yield f"{corpus}/check.py total", line


SECTIONS: dict[str, Callable[[], Iterator[Case]]] = {
    "releases": run_releases,
    "theory": run_theory,
    "attackers": run_attackers,
    "study": run_study,
    "commands": run_commands,
    "files": run_files,
}


def collect(sections: list[str], output: Path) -> None:
    """Run the sections in this process and write their results after each of them."""
    found = json.loads(output.read_text(encoding="utf-8")) if output.exists() else {}
    for section in sections:
        begin = time.monotonic()
        found[section] = {}
        for name, result in SECTIONS[section]():
            found[section][name] = json.loads(json.dumps(result))
            crash = result.get(CRASHED, "") if isinstance(result, dict) else ""
            print(f"{time.monotonic() - begin:6.0f} s  {section}: {name} {crash}", flush=True)
        output.write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")


def differences(a: Any, b: Any, where: str = "") -> Iterator[str]:
    """One line for every place at which two results differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(key for key in b if key not in a)]:
            inside = f"{where} / {key}" if where else str(key)
            if key not in a or key not in b:
                yield f"{inside}: only in the {'first' if key in a else 'second'}"
            else:
                yield from differences(a[key], b[key], inside)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for number, (left, right) in enumerate(zip(a, b, strict=True)):
            yield from differences(left, right, f"{where}[{number}]")
    # A score that is not defined is not a number, which differs from itself.
    elif a != b and (a == a or b == b):
        yield f"{where}: {shorten(a)} | {shorten(b)}"


def shorten(value: Any) -> str:
    """A value in at most 160 characters."""
    text = re.sub(r"\s+", " ", str(value))
    return text if len(text) <= 160 else f"{text[:157]}…"


def main() -> int:
    """Run one version, or compare the results of two; the exit code is 1 if they differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run", help="write the results of one source tree")
    runner.add_argument("source", type=Path, help="the folder that holds the package hushmeter")
    runner.add_argument("-o", "--output", type=Path, required=True)
    runner.add_argument("--only", choices=SECTIONS, action="append", help="only this section")
    comparer = commands.add_parser("compare", help="list what differs")
    comparer.add_argument("files", type=Path, nargs=2)
    given = parser.parse_args()
    if given.command == "compare":
        first, second = (json.loads(path.read_text(encoding="utf-8")) for path in given.files)
        found = list(differences(first, second))
        print(*found, f"{len(found)} differences", sep="\n")
        return int(bool(found))
    environment = {**os.environ, "PYTHONPATH": str(given.source.resolve())}
    code = "import sys; sys.path.append(sys.argv[1]); from tools import same_results as t; "
    code += "from pathlib import Path; t.collect(sys.argv[3:], Path(sys.argv[2]))"
    sections = given.only or list(SECTIONS)
    words = [sys.executable, "-c", code, str(ROOT), str(given.output.resolve()), *sections]
    return subprocess.run(words, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
