"""The commands, run as a person runs them, and how all tests run them."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.files import write_table


def run(*arguments, expect=0):
    """`main()` as the installed program calls it, without paying for a new process."""
    from hushmeter.cli import main

    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["hushmeter", *map(str, arguments)]
    code = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        sys.argv = before
    return _checked(
        subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue()), expect
    )


def run_process(*arguments, expect=0):
    """The same in a process of its own."""
    command = [sys.executable, "-m", "hushmeter", *map(str, arguments)]
    return _checked(subprocess.run(command, capture_output=True, text=True, check=False), expect)


def _checked(done, expect):
    assert done.returncode == expect, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    folder = tmp_path_factory.mktemp("case")
    home = hm.synth.ready_home("evening")
    trace = hm.synth.trace(home, 3000, seed=2)
    home.save(folder / "home.toml")
    columns = {"timestamp": trace.times, "watts": trace.readings}
    write_table(folder / "meter.csv", columns)
    columns |= dict(zip(home.names, trace.power.T, strict=True))
    write_table(folder / "sub.parquet", columns)
    return folder


def attack(case, *more, file="meter.csv", attacker="hierarchical", expect=0):
    return run(
        "attack",
        case / file,
        "--home",
        case / "home.toml",
        "--attacker",
        attacker,
        *more,
        expect=expect,
    )


def test_a_process_of_its_own_says_the_same(case, tmp_path):
    words = ["attack", case / "meter.csv", "--home", case / "home.toml", "-a", "hierarchical"]
    here, there = (
        way(*words, "-o", tmp_path / f"{way.__name__}.csv", "--json") for way in (run, run_process)
    )
    assert json.loads(here.stdout)["appliances"] == json.loads(there.stdout)["appliances"]
    missing = [way("inspect", "nowhere.csv", expect=1).stderr for way in (run, run_process)]
    assert missing == ["hushmeter: nowhere.csv is not a file.\n"] * 2


def test_attack_writes_states_and_says_where(case, tmp_path):
    out = tmp_path / "states.csv"
    done = attack(case, "-o", out)
    assert "hierarchical on 3000 readings of 6 s" in done.stdout
    assert "Not scored: the file lacks a column of watts" in done.stdout
    table = np.genfromtxt(out, delimiter=",", names=True, dtype=None, encoding="utf-8")
    assert len(table) == 3000
    assert set(table["kettle"]) <= {0, 1}


def test_attack_scores_where_appliances_are_in_the_file(case, tmp_path):
    done = attack(case, "-o", tmp_path / "s.parquet", "--json", file="sub.parquet")
    answer = json.loads(done.stdout)
    assert answer["readings"] == 3000
    assert answer["interval_s"] == 6.0
    assert set(answer["appliances"]) == set(hm.synth.ready_home("evening").names)
    assert 0 <= answer["score"]["alpha"] <= 1
    plain = attack(case, "-o", tmp_path / "t.csv", file="sub.parquet").stdout
    assert "Accuracy α" in plain
    assert "everything off" in plain
    bare = json.loads(attack(case, "-o", tmp_path / "u.csv", "--json").stdout)
    assert bare["score"] is None


def test_attack_equals_the_library(case, tmp_path):
    attack(case, "-o", tmp_path / "s.parquet", "--seed", 5)
    import pyarrow.parquet as pq

    home, trace = hm.read_home(case / "home.toml"), hm.read_meter(case / "meter.csv")
    expected = hm.attackers["hierarchical"](home).predict(trace, rng=5)
    table = pq.read_table(tmp_path / "s.parquet")
    found = np.column_stack([table.column(name).to_numpy() for name in home.names])
    np.testing.assert_array_equal(found.astype(bool), expected)


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"attacker": "multishot"}, 2, "did you mean 'multi-shot'?"),
        ({"file": "none.csv"}, 1, "is not a file"),
        ({"home": "bad.toml"}, 1, "describes no valid home: power of x must be positive"),
        ({"home": "zero.toml"}, 1, "tolerance must be positive and finite, got 0"),
        ({"file": "nan.csv"}, 1, "holds a single reading, so its interval is unknown"),
        ({"file": "empty.csv"}, 1, "holds no readings"),
        ({"output": "states.xlsx"}, 2, "must end in .csv or .parquet"),
        ({"output": "taken.csv"}, 1, "exists; add --force"),
    ],
)
def test_bad_input_is_one_sentence_and_an_exit_code(case, tmp_path, change, code, message):
    (tmp_path / "bad.toml").write_text('tolerance = 1\n[[appliance]]\nname = "x"\npower = -3\n')
    (tmp_path / "zero.toml").write_text('tolerance = 0\n[[appliance]]\nname = "x"\npower = 3\n')
    (tmp_path / "nan.csv").write_text("timestamp,watts\n1,2\n2,nan\n")
    (tmp_path / "empty.csv").write_text("timestamp,watts\n")
    (tmp_path / "taken.csv").write_text("precious")
    home = tmp_path / change["home"] if "home" in change else case / "home.toml"
    done = run(
        "attack",
        tmp_path / change["file"] if "file" in change else case / "meter.csv",
        "--home", home,
        "--attacker", change.get("attacker", "multi-shot"),
        "-o", tmp_path / change.get("output", "states.csv"),
        expect=code,
    )  # fmt: skip
    assert message in done.stderr
    assert done.stderr.startswith("hushmeter: ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert (tmp_path / "taken.csv").read_text() == "precious"
    assert not (tmp_path / "states.csv").exists()


def test_attackers_are_listed_with_needs_and_assumptions():
    names = [row["name"] for row in json.loads(run("attackers", "--json").stdout)]
    assert names == list(hm.attackers)
    assert "few switches" in run("attackers").stdout


def test_help_shows_examples_and_version():
    assert "demo" in run("--help").stdout
    assert "Example: hushmeter attack" in " ".join(run("attack", "--help").stdout.split())
    assert run("--version").stdout.strip() == f"hushmeter {hm.__version__}"


def test_an_unexpected_fault_is_one_sentence(tmp_path):
    code = (
        "import hushmeter.home, sys; from hushmeter.cli import main\n"
        "def boom(path): raise RuntimeError('boom')\n"
        "hushmeter.home.read_home = boom\n"
        "sys.argv = ['hushmeter', 'attack', 'f', '--home', '.', '-a', 'hold', '-o', 'x.csv']\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "unexpected RuntimeError: boom" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_does_not_import_what_it_does_not_need():
    code = (
        "import sys; sys.argv = ['hushmeter', '--help']\n"
        "from hushmeter.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'numba', 'pandas', 'pyarrow', 'scipy', 'matplotlib', 'jinja2'}\n"
        "loaded = heavy & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
