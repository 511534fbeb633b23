"""The network: what a prediction depends on, and the ends of pieces and runs."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.nilm import network
from hushmeter.apps.nilm.network import Cells, Encoder, Noise, build_net, evaluate
from hushmeter.errors import MissingExtraError

torch = pytest.importorskip("torch", reason="needs the extra deep")


def make(interval_s: float):
    cells = Cells(interval_s)
    return Encoder(cells, 200.0, 100.0), [build_net(cells, 8, 2, seed=5)]


def starts(length: int, *places: int):
    run_starts = np.zeros(length, bool)
    run_starts[[0, *places]] = True
    return run_starts


@pytest.mark.parametrize("interval_s", [20.0, 60.0, 900.0])
def test_runs_are_evaluated_on_their_own(interval_s, rng):
    encoder, nets = make(interval_s)
    y = 200 + 100 * rng.normal(size=700)
    together = evaluate(nets, encoder, y, starts(700, 250, 251, 640), Noise(50.0))
    for first, stop in ((0, 250), (250, 251), (251, 640), (640, 700)):
        part = evaluate(nets, encoder, y[first:stop], starts(stop - first), Noise(50.0))
        np.testing.assert_allclose(together[first:stop], part, atol=1e-5)


@pytest.mark.parametrize("interval_s", [20.0, 900.0])
def test_pieces_of_a_long_run_give_the_same_as_the_whole(interval_s, rng, monkeypatch):
    encoder, nets = make(interval_s)
    y = 200 + 100 * rng.normal(size=6001)
    whole = evaluate(nets, encoder, y, starts(6001), Noise(50.0))
    monkeypatch.setattr(network, "CHUNK", 300)
    np.testing.assert_allclose(
        evaluate(nets, encoder, y, starts(6001), Noise(50.0)), whole, atol=1e-5
    )


def test_a_prediction_depends_on_its_field_only(rng):
    encoder, nets = make(900.0)
    y = 200 + 100 * rng.normal(size=400)
    changed = y.copy()
    changed[200 + encoder.cells.field + 1 :] += 500.0
    before, after = (evaluate(nets, encoder, x, starts(400), Noise()) for x in (y, changed))
    np.testing.assert_allclose(before[:200], after[:200], atol=1e-6)
    assert (
        np.abs(before[200 + encoder.cells.field + 1 :] - after[-199 + encoder.cells.field :]).max()
        > 0.001
    )


def test_weights_survive_a_copy_and_the_generator_is_left_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    net = build_net(Cells(60.0), 8, 3, seed=2)
    weights = network.weights_of(net)
    again = build_net(Cells(60.0), 8, 3, weights)
    assert torch.equal(torch.rand(3), expected)
    for one, two in zip(weights, network.weights_of(again), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", ["tcn", "semi-blind", "rnn"])
def test_a_missing_torch_is_reported_at_once(monkeypatch, name):
    monkeypatch.setattr(network, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[deep\]"'):
        hm.attackers[name](hm.synth.ready_home("evening"))


def test_torch_is_imported_only_to_train():
    code = (
        "import sys, hushmeter as hm\n"
        "home = hm.synth.ready_home('evening')\n"
        "made = [hm.attackers[name](home) for name in ('tcn', 'semi-blind', 'rnn')]\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
