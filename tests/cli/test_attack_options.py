"""`hushmeter attack` with training data and parameters."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

import hushmeter as hm
from hushmeter.files import write_table
from tests.cli.test_commands import run, run_process


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    folder = tmp_path_factory.mktemp("case")
    home = hm.Home([hm.Appliance("lamp", 60.0), hm.Appliance("kettle", 2000.0)], 10.0)
    home.save(folder / "home.toml")
    for seed, name in enumerate(("train", "test")):
        trace = hm.synth.trace(home, 800, 0.97, seed=seed)
        columns = dict(zip(home.names[::-1], trace.power.T[::-1], strict=True))
        write_table(
            folder / f"{name}.parquet",
            {"timestamp": trace.times, "watts": trace.readings, **columns},
        )
    write_table(folder / "bare.csv", {"timestamp": trace.times, "watts": trace.readings})
    return folder


def attack(case, output, *more, attacker="co", file="test.parquet", expect=0, call=run):
    words = ["attack", case / file, "--home", case / "home.toml", "--attacker", attacker]
    return call(*words, "-o", output, *more, expect=expect)


TRAINED = {
    "co": ["most=1"],
    "sparse-hmm": ["unseen=nearest", "precision=0.2"],
    "ip": ["ratings=[[60], [1990, 2010]]"],
    "alip": ['rules={"always_on": ["lamp"]}', "most=2"],
}


@pytest.mark.parametrize("name", TRAINED)
def test_attackers_are_trained_and_take_parameters(case, tmp_path, name):
    options = [word for text in TRAINED[name] for word in ("-p", text)]
    done = attack(
        case, tmp_path / "s.parquet", "--train", case / "train.parquet", *options, "--json",
        attacker=name,
    )  # fmt: skip
    assert json.loads(done.stdout)["score"]["alpha"] > (0.7 if name == "alip" else 0.97)


def test_the_command_equals_the_library(case, tmp_path):
    attack(
        case, tmp_path / "s.parquet", "--train", case / "train.parquet",
        "--parameter", "unseen=nearest", attacker="sparse-hmm",
    )  # fmt: skip
    home = hm.read_home(case / "home.toml")
    train, test = (hm.read_home_data(case / f"{name}.parquet") for name in ("train", "test"))
    power = train.power[:, [train.names.index(name) for name in home.names]]
    trace = hm.Trace(
        train.readings, train.interval_s, train.start, power > home.powers / 2, power, home.names
    )
    expected = hm.attackers["sparse-hmm"](home, unseen="nearest").fit(trace).predict(test)
    table = pq.read_table(tmp_path / "s.parquet")
    found = np.column_stack([table.column(name).to_numpy() for name in home.names])
    np.testing.assert_array_equal(found.astype(bool), expected)


def test_a_known_mechanism_is_a_parameter(case, tmp_path):
    noise = '{"laplace": {"epsilon": 1, "sensitivity": 10}}'
    attack(case, tmp_path / "s.csv", "-p", f"mechanism={noise}", attacker="multi-shot")


@pytest.mark.parametrize(
    ("attacker", "options", "code", "message"),
    [
        ("sparse-hmm", [], 2, "learns from sub-metered data: add --train FILE"),
        ("co", ["--train", "bare.csv"], 1, "no column of watts for lamp, kettle"),
        ("co", ["--train", "none.csv"], 1, "is not a file"),
        ("co", ["-p", "mots=1"], 2, "no parameter of co named 'mots'; did you mean 'most'?"),
        ("co", ["-p", "most"], 2, "--parameter must have the form name=value"),
        ("co", ["-p", "most=none"], 2, "most must be a whole number"),
        ("co", ["-p", "levels=5"], 2, "the parameters of co are not valid"),
        ("multi-shot", ["-p", 'mechanism={"laplas": {}}'], 2, "did you mean 'laplace'?"),
    ],
)
def test_bad_options_are_one_sentence(case, tmp_path, attacker, options, code, message):
    words = [case / word if word.endswith(".csv") else word for word in options]
    done = attack(case, tmp_path / "s.csv", *words, attacker=attacker, expect=code)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "s.csv").exists()


def test_help_imports_neither_numpy_nor_torch():
    code = (
        "import sys; sys.argv = ['hushmeter', 'attack', '--help']\n"
        "from hushmeter.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert not {'numpy', 'torch', 'numba'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_an_attacker_of_ones_own_is_named_by_module_and_class(case, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import hushmeter as hm\n"
        "from hushmeter.attack.base import AllOff\n\n\n"
        "class Mine(AllOff):\n"
        "    name = 'mine'\n"
    )
    output = tmp_path / "states.csv"
    # A process of its own, because an imported module stays.
    with contextlib.chdir(tmp_path):
        done = attack(case, output, "--json", attacker="mine:Mine", call=run_process)
        assert json.loads(done.stdout)["attacker"] == "mine"
        words = {"attacker": "mine:Yours", "expect": 2, "call": run_process}
        done = attack(case, output, "--force", **words)
    assert "the module mine has no class 'Yours'" in done.stderr


def test_an_appliance_that_never_runs_in_training_is_named(tmp_path):
    pytest.importorskip("lightgbm", reason="needs the extra nilm")
    home = hm.Home([hm.Appliance("kettle", 2000.0), hm.Appliance("heater", 900.0)], 20.0)
    home.save(tmp_path / "home.toml")
    lines = ["timestamp,aggregate,kettle,heater"]
    for i in range(200):
        watts = 2000 * (i % 20 < 3)
        lines.append(f"2024-01-01T{i // 60:02d}:{i % 60:02d}:00Z,{100 + watts},{watts},0")
    (tmp_path / "sub.csv").write_text("\n".join(lines) + "\n")
    command = ["attack", "sub.csv", "--home", "home.toml", "-a", "trees", "--train", "sub.csv"]
    command += ["-p", "rounds=2", "-o", "states.csv", "--force"]
    with contextlib.chdir(tmp_path):
        printed = [run(*command, *more).stdout for more in ([], ["--json"])]
    assert "Never on in the training data: heater." in printed[0]
    assert json.loads(printed[1])["never_on_in_training"] == ["heater"]


def test_the_strongest_attacker_is_named(case, tmp_path):
    more = ["--train", case / "train.parquet"]
    done = attack(case, tmp_path / "a.csv", *more, attacker="strongest")
    assert "The attacker is bayes: it is right about" in done.stdout
    done = attack(case, tmp_path / "b.csv", *more, "--json", attacker="strongest")
    choice = json.loads(done.stdout)["choice"]
    assert (choice["name"], choice["threshold"]) == ("bayes", 0.5)


def test_an_attack_without_a_home_is_refused(case, tmp_path):
    words = ["attack", case / "test.parquet", "-a", "co", "-o", tmp_path / "s.csv"]
    assert "a home is needed" in run(*words, expect=2).stderr


def test_means_are_attacked_with_on_in_any_part(case, tmp_path):
    more = ["--train", case / "train.parquet", "--every", "5min", "--json"]
    done = attack(case, tmp_path / "s.csv", *more, attacker="co")
    found = json.loads(done.stdout)
    assert found["interval_s"] == 300
    assert found["readings"] == 16
    trace = hm.read_home_data(case / "test.parquet")
    home = hm.read_home(case / "home.toml")
    share = home.label(trace).coarsen("5min", on="any").truth().mean()
    assert found["score"]["alpha_floor"] == pytest.approx(1 - share)
    assert share > home.label(trace).coarsen("5min").truth().mean()
    assert 0 < found["shares"]["error"] < found["shares"]["off_error"]
    words = attack(case, tmp_path / "w.csv", *more[:-1], attacker="co").stdout
    assert "Share of time on in an interval: mean error" in words


def test_negative_readings_are_named_and_solar_power_is_removed(case, tmp_path):
    home = hm.read_home(case / "home.toml")
    loads = hm.synth.trace(home, 4 * 1440, 0.98, interval_s=60.0, seed=3)
    net = hm.synth.add_solar(loads, 4000.0, seed=3)
    write_table(tmp_path / "net.csv", {"timestamp": net.times, "watts": net.readings.round(3)})
    said, f1 = {}, {}
    for choice in ("keep", "remove"):
        output = tmp_path / f"{choice}.parquet"
        more = ["--generation", choice, "--json"]
        done = attack(case, output, *more, file=tmp_path / "net.csv")
        said[choice] = json.loads(done.stdout)["generation"]
        states = pq.read_table(output).select(list(home.names)).to_pandas().to_numpy(bool)
        f1[choice] = hm.score(states, loads).f1
    assert "readings are negative" in said["keep"]
    assert "kWh was estimated and removed" in said["remove"]
    assert f1["remove"] > f1["keep"] + 0.05
    wrong = attack(case, tmp_path / "no.csv", "--generation", "solar", expect=2)
    assert "generation must be" in wrong.stderr
