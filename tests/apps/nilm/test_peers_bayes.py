"""Bayes and FHMM on recorded cases, beside what other tools made of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hushmeter import Appliance, Attacker, Home, Laplace, Score, Trace, attackers, score
from hushmeter.apps.nilm.bayes import Bayes
from hushmeter.apps.nilm.factorial_hmm import FactorialHmm

SIX = ["fridge", "dishwasher", "microwave", "lighting_1", "lighting_2", "washer_dryer_2"]


@pytest.fixture(scope="session")
def peers() -> Path:
    """The folder of the peers' cases, or a skip with the reason."""
    default = Path(__file__).resolve().parents[4] / "shared" / "peers"
    folder = Path(os.environ.get("HUSHMETER_PEERS", default))
    if not folder.is_dir():
        pytest.skip(f"no peers' cases at {folder}; name a folder in HUSHMETER_PEERS")
    return folder


class Case:
    """Training and test part of a recorded case."""

    def __init__(self, folder: Path) -> None:
        about = json.loads((folder / "case.json").read_text())
        names = about["appliances"]
        self.folder = folder
        self.thresholds = np.array([about["on_threshold"][name] for name in names])
        self.train, self.test = (
            self.read(folder / f"{part}.csv.gz", names) for part in ("train", "test")
        )
        self.home = home_of(self.train)

    def read(self, path: Path, names: list[str]) -> Trace:
        table = pd.read_csv(path)
        power = table[names].to_numpy(float)
        mains = table["mains"].to_numpy(float)
        return Trace(mains, 60.0, states=power > self.thresholds, power=power, names=names)

    def recorded(self, name: str) -> Score:
        """Score of a peer's own prediction."""
        with np.load(self.folder / f"{name}.npz") as file:
            return score(file["power"] > self.thresholds, self.test)

    def mean_f1(self, epsilon: float | None) -> float:
        """Macro F1 of bayes over three seeds of Laplace noise with scale 10/ε W."""
        if epsilon is None:
            return score(Bayes(self.home).fit(self.train).predict(self.test), self.test).f1
        mechanism = Laplace(epsilon=epsilon, sensitivity=10.0, on_grid=True)
        return self.mean_score(Bayes(self.home, mechanism=mechanism).fit(self.train), epsilon)[1]

    def mean_score(self, attacker: Attacker, epsilon: float) -> tuple[float, float]:
        """Accuracy and macro F1 over three seeds of Laplace noise with scale 10/ε W."""
        scores = []
        for seed in range(3):
            noise = np.random.default_rng(1000 + seed).laplace(0, 10 / epsilon, len(self.test))
            states = attacker.predict(self.test.readings + noise, rng=seed)
            found = score(states, self.test)
            scores.append((found.alpha, found.f1))
        alpha, f1 = np.mean(scores, axis=0)
        return float(alpha), float(f1)


def home_of(train: Trace) -> Home:
    means = [train.power[on, i].mean() for i, on in enumerate(train.states.T)]
    pairs = zip(train.names, means, strict=True)
    return Home([Appliance(name, float(watts)) for name, watts in pairs], tolerance=10.0)


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("syn5", (0.995, 0.995, 0.985, 0.91)),
        ("syn8", (0.99, 0.99, 0.945, 0.815)),
        pytest.param("ampds_min4", (0.96, 0.94, 0.85, 0.69), marks=pytest.mark.slow),
    ],
)
def test_bayes_sees_through_the_noise(peers, name, targets):
    case = Case(peers / name)
    for epsilon, target in zip((None, 1.0, 0.3, 0.1), targets, strict=True):
        assert case.mean_f1(epsilon) >= target, f"epsilon {epsilon}"


@pytest.mark.parametrize(
    "name", ["syn5", "syn8", pytest.param("ampds_min4", marks=pytest.mark.slow)]
)
def test_no_other_attacker_sees_more_than_bayes(peers, name):
    """Every attacker but those that train for long; three seeds, accuracy and F1."""
    case = Case(peers / name)
    names = [other for other in attackers if other not in ("rnn", "trees", "strongest")]
    trained = {other: attackers[other](case.home).fit(case.train) for other in names}
    for epsilon in (3.0, 1.0, 0.3, 0.1):
        trained["bayes"].mechanism = Laplace(epsilon=epsilon, sensitivity=10.0, on_grid=True)
        seen = {other: case.mean_score(attacker, epsilon) for other, attacker in trained.items()}
        for other, (alpha, f1) in seen.items():
            assert seen["bayes"][0] > alpha - 0.005, f"accuracy of {other} at epsilon {epsilon}"
            assert seen["bayes"][1] > f1 - 0.005, f"F1 of {other} at epsilon {epsilon}"


@pytest.mark.parametrize("name", ["syn5", "syn8", "ampds_min4"])
def test_fhmm_with_variance_5_is_nilmtks(peers, name):
    case = Case(peers / name)
    peer = case.recorded("fhmm2")
    ours = score(
        FactorialHmm(case.home, variance=5.0).fit(case.train).predict(case.test), case.test
    )
    assert ours.alpha == pytest.approx(peer.alpha, abs=0.01)
    assert ours.f1 > peer.f1 - 0.01


def test_fhmm_with_the_variance_of_the_noise(peers):
    case = Case(peers / "syn8")
    for epsilon, recorded in ((1.0, (0.976, 0.926)), (0.3, (0.954, 0.914)), (0.1, (0.872, 0.738))):
        attacker = FactorialHmm(case.home, variance=5 + 2 * (10 / epsilon) ** 2).fit(case.train)
        results = []
        for seed in range(3):
            noise = np.random.default_rng(1000 + seed).laplace(0, 10 / epsilon, len(case.test))
            results.append(score(attacker.predict(case.test.readings + noise), case.test))
        assert np.mean([r.alpha for r in results]) == pytest.approx(recorded[0], abs=0.012)
        assert np.mean([r.f1 for r in results]) == pytest.approx(recorded[1], abs=0.02)


def redd(shared_data: Path, *, mains: bool) -> tuple[Home, Trace, Trace]:
    """REDD house 1 at 1 min: six appliances, their sum or the real mains as readings."""
    table = pd.read_parquet(shared_data / "redd" / "redd_house1_3s.parquet").set_index("timestamp")
    table = table.astype(float).resample("1min").mean().dropna()
    power = table[SIX].to_numpy()
    count = int((table.index < pd.Timestamp("2011-04-30", tz="UTC")).sum())
    medians = [np.median(column[column > 10]) for column in power[:count].T]
    states = power > np.maximum(15.0, np.array(medians) / 2)
    readings = table["aggregate"].to_numpy() if mains else power.sum(axis=1)
    steps = (table.index - table.index[0]) // pd.Timedelta("1min")
    whole = Trace(
        readings, 60.0, table.index[0].to_pydatetime(), states, power, SIX, steps.to_numpy()
    )
    train, test = whole[:count], whole[count:]
    return home_of(train), train, test


def test_redd_denoised(shared_data):
    home, train, test = redd(shared_data, mains=False)
    result = score(Bayes(home).fit(train).predict(test), test)
    assert result.alpha >= 0.93
    assert result.f1 >= 0.85


def test_redd_with_the_real_mains_for_three_days(shared_data):
    home, train, test = redd(shared_data, mains=True)
    days = test[:4320]
    attacker = Bayes(home, budget=1024).fit(train)
    assert attacker.means_[-1].size > 4, "unmetered load"
    assert score(attacker.predict(days), days).f1 >= 0.60


@pytest.mark.slow
def test_redd_with_the_real_mains(shared_data):
    home, train, test = redd(shared_data, mains=True)
    result = score(Bayes(home).fit(train).predict(test), test)
    assert result.f1 >= 0.70
    assert result.alpha >= 0.90
