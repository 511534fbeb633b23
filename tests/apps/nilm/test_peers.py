"""Parity with other people's programmes on their own recorded answers."""

from __future__ import annotations

import json
import os
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hushmeter as hm
from hushmeter.apps.nilm.combinatorial import (
    AidedIntegerProgram,
    CombinatorialOptimisation,
    IntegerProgram,
)
from hushmeter.apps.nilm.super_state_hmm import SuperStateHmm
from hushmeter.apps.study.figures import Setting, find_building
from hushmeter.scoring import kolter_accuracy, score

CASES = ("syn5", "syn8", "ampds_min4")
BLOCK = 5040
RATINGS = [[4620, 502, 29], [10, 130, 445, 1019], [51, 24, 1823, 2400], [9, 22]]
AMPDS_RULES = {
    "always_on": ["CDE", "FRG", "HPE", "B1E"],
    "exclusive": [],
    "transitions": [
        ("CDE", 29, 502, 29),
        ("FRG", 10, 445, 130),
        ("FRG", 10, 1019, 10),
        ("FRG", 130, 1019, 130),
        ("HPE", 51, 24, 51),
        ("HPE", 1823, 51, 24),
    ],
    "median": [("HPE", 2400, 2, 1823), ("B1E", 22, 45, 9)],
    "boxes": [
        ("CDE", 4620, 4550, 4660),
        ("CDE", 502, 502, 520),
        ("FRG", 130, 127, 150),
        ("HPE", 1823, 1800, 1900),
        ("HPE", 2400, 2400, 2450),
    ],
}


class Case:
    """A home, its training and test traces, and the peers' answers."""

    def __init__(self, folder):
        facts = json.loads((folder / "case.json").read_text())
        self.folder, names = folder, facts["appliances"]
        self.thresholds = np.array([facts["on_threshold"][name] for name in names])
        self.train, self.test = (self._read(part, names) for part in ("train", "test"))
        means = [
            float(power[on].mean())
            for power, on in zip(self.train.power.T, self.train.states.T, strict=True)
        ]
        self.home = hm.Home(map(hm.Appliance, names, means), tolerance=5.0)

    def _read(self, part, names):
        table = pd.read_csv(self.folder / f"{part}.csv.gz")
        power = table[names].to_numpy(float)
        return hm.Trace(
            table["mains"], 60.0, states=power > self.thresholds, power=power, names=names
        )

    def recorded(self, peer):
        return np.load(self.folder / f"{peer}.npz")["power"].astype(float)


@pytest.fixture(scope="module")
def peers():
    default = Path(__file__).resolve().parents[4] / "shared" / "peers"
    folder = Path(os.environ.get("HUSHMETER_PEERS", default))
    if not folder.is_dir():
        pytest.skip(f"no recorded answers at {folder}; name a folder in HUSHMETER_PEERS")
    return folder


@pytest.fixture(scope="module")
def ampds(peers):
    return Case(peers / "ampds_min4")


@pytest.mark.parametrize("name", CASES)
def test_sparse_hmm_gives_the_states_of_sparsenilm(peers, name):
    case = Case(peers / name)
    found = SuperStateHmm(case.home).fit(case.train).predict_power(case.test)
    assert (found == case.recorded("sparse01")).all(axis=1).mean() >= 0.999


class PlainSparseNilm:
    """SparseNILM's published rules in plain dictionaries; gaps are ignored, as its authors do."""

    def __init__(self, power, mains):
        self.states = [self.find_states(column) for column in power.T]
        codes = [
            tuple(bins[q] for (_, bins), q in zip(self.states, row, strict=True)) for row in power
        ]
        self.seen, self.steps, self.emitted = Counter(codes), {}, {}
        for before, code, y in zip([codes[0], *codes], codes, mains, strict=False):
            self.steps.setdefault(code, Counter())[before] += 1
            self.emitted.setdefault(y, Counter())[code] += 1
        self.left = Counter([codes[0], *codes[:-1]])
        self.answers = {}

    @staticmethod
    def find_states(values):
        """Peaks and the state of every value; zero is taken out of the histogram first."""
        size = len(values)
        counts = np.bincount(values, minlength=values.max() + 2)
        counts[0], least = 0, 0.0
        while True:
            least += 0.00021
            peaks, bins, state, falling = [0], [0], 1, True
            for i in range(1, len(counts) - 1):
                before, here, after = counts[i - 1 : i + 2]
                if before < here > after and falling and here / size > least:
                    peaks.append(i)
                    falling = False
                elif before > here <= after and not falling:
                    state, falling = min(state + 1, len(peaks)), True
                bins.append(state)
            if len(peaks) <= 4:
                return peaks, [min(one, len(peaks) - 1) for one in bins]

    def power(self, last, now):
        """Peak power of the best pair of states for two mains values; all zero without a path."""
        if (last, now) not in self.answers:
            # P0_i·B_i(last) is the count of i with this value, up to a constant factor.
            start = self.emitted.get(last, {})
            chances = {
                j: max(
                    (start[i] * n / self.left[i] for i, n in self.steps[j].items() if i in start),
                    default=0.0,
                )
                * emitted
                / self.seen[j]
                for j, emitted in self.emitted.get(now, {}).items()
            }
            best = max(chances, key=chances.get, default=None)
            found = best if best is not None and chances[best] > 0 else (0,) * len(self.states)
            self.answers[last, now] = [
                10.0 * peaks[k] for (peaks, _), k in zip(self.states, found, strict=True)
            ]
        return self.answers[last, now]


def test_sparse_hmm_gives_the_states_of_sparsenilm_on_redd(shared_data):
    case = find_building(Setting(data=shared_data)).case
    power, mains, test = (
        np.maximum(watts * 0.1, 0).astype(int)
        for watts in (case.train.power, case.train.readings, case.test.readings)
    )
    peer = PlainSparseNilm(power, mains.tolist())
    assert peer.states[case.home.names.index("fridge")][0] == [0, 1, 19, 42]
    recorded = [peer.power(last, now) for last, now in pairwise(test.tolist())]
    found = SuperStateHmm(case.home).fit(case.train).predict_power(case.test)[1:]
    assert (found == np.array(recorded)).all(axis=1).mean() >= 0.999


@pytest.mark.parametrize("name", CASES)
def test_co_scores_as_nilmtk_with_its_states(peers, name):
    case = Case(peers / name)
    recorded = case.recorded("co")
    levels = [np.unique(column)[1:].tolist() for column in recorded.T]
    attacker = CombinatorialOptimisation(case.home, levels=levels).fit(case.train)
    ours = score(attacker.predict(case.test), case.test)
    theirs = score(recorded > case.thresholds, case.test)
    assert ours.alpha == pytest.approx(theirs.alpha, abs=0.005)
    assert ours.f1 == pytest.approx(theirs.f1, abs=0.005)
    # Its own levels do as well, within what a random start of k-means is worth.
    learnt = score(
        CombinatorialOptimisation(case.home).fit(case.train).predict(case.test), case.test
    )
    assert learnt.alpha == pytest.approx(theirs.alpha, abs=0.015)
    assert learnt.f1 == pytest.approx(theirs.f1, abs=0.01)


def in_blocks(attacker, trace):
    """The authors' experiment: windows of 5040 readings, each from an empty start."""
    parts = [trace[first : first + BLOCK] for first in range(0, len(trace), BLOCK)]
    return np.vstack([attacker.predict_power(part) for part in parts])


def test_ip_reaches_the_recorded_total(ampds):
    """Every total is as near to the reading; 2 % of the readings have two that are."""
    power = in_blocks(IntegerProgram(ampds.home, ratings=RATINGS, solve_first=False), ampds.test)
    recorded = ampds.recorded("ip_rec")
    ours, theirs = (np.abs(p.sum(axis=1) - ampds.test.readings) for p in (power, recorded))
    assert (np.abs(ours - theirs) < 0.06).mean() >= 0.999
    assert (np.abs(power.sum(axis=1) - recorded.sum(axis=1)) < 0.06).mean() > 0.99
    truth = ampds.test.power
    assert kolter_accuracy(power, truth) == pytest.approx(
        kolter_accuracy(recorded, truth), abs=0.003
    )


def test_alip_reaches_the_recorded_total(ampds):
    attacker = AidedIntegerProgram(
        ampds.home, ratings=RATINGS, solve_first=False, rules=AMPDS_RULES
    )
    power, recorded = in_blocks(attacker, ampds.test), ampds.recorded("alip_rec")
    assert (np.abs(power.sum(axis=1) - recorded.sum(axis=1)) < 0.06).mean() >= 0.999
    truth = ampds.test.power
    assert kolter_accuracy(power, truth) == pytest.approx(
        kolter_accuracy(recorded, truth), abs=0.003
    )


@pytest.mark.slow
def test_rnn_learns_syn5(peers):
    pytest.importorskip("torch", reason="needs the extra deep")
    case = Case(peers / "syn5")
    attacker = hm.attackers["rnn"](case.home, settings={"hidden": (32, 64)}).fit(case.train)
    assert score(attacker.predict(case.test), case.test).f1 >= 0.74


@pytest.mark.slow
def test_rnn_of_the_published_size_learns_syn5(peers):
    pytest.importorskip("torch", reason="needs the extra deep")
    case = Case(peers / "syn5")
    attacker = hm.attackers["rnn"](case.home).fit(case.train)
    assert score(attacker.predict(case.test), case.test).f1 >= 0.74
