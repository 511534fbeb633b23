"""The recurrent attacker, trained for real; skipped where PyTorch is absent."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from hushmeter import synth
from hushmeter.appliance import Appliance
from hushmeter.apps.nilm import neural
from hushmeter.apps.nilm.neural import RecurrentNet, _one_step, _Windows
from hushmeter.errors import DataError, InputError, MissingExtraError, NotFittedError
from hushmeter.home import Home
from hushmeter.scoring import score

torch = pytest.importorskip("torch", reason="needs the extra deep")

HOME = Home([Appliance("kettle", 2000.0), Appliance("heater", 900.0)], 20.0)
SMALL = {"settings": {"hidden": (8, 16), "dense": 16, "epochs": 2, "batch": 32}}


@pytest.fixture(scope="module")
def trace():
    return synth.trace(HOME, 1500, 0.98, seed=2)


def test_it_learns_a_home_of_two(trace):
    attacker = RecurrentNet(HOME, settings={**SMALL["settings"], "epochs": 6}).fit(trace)
    assert score(attacker.predict(trace), trace).f1 > 0.9


def test_the_same_seed_gives_the_same_network(trace):
    one, two = (RecurrentNet(HOME, **SMALL, seed=3).fit(trace) for _ in range(2))
    np.testing.assert_array_equal(one.predict_power(trace), two.predict_power(trace))
    other = RecurrentNet(HOME, **SMALL, seed=4).fit(trace)
    assert (one.predict_power(trace) != other.predict_power(trace)).any()


def test_the_global_generator_and_threads_are_left_alone(trace):
    torch.manual_seed(1)
    expected = torch.rand(3)
    threads = torch.get_num_threads()
    torch.manual_seed(1)
    RecurrentNet(HOME, **SMALL).fit(trace[:64]).predict(trace[:8])
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads


def test_longer_windows_and_gaps(trace):
    attacker = RecurrentNet(HOME, settings={**SMALL["settings"], "window": 5}).fit(trace[:200])
    assert attacker.predict(trace[:20]).shape == (20, 2)
    assert attacker.predict([100.0]).shape == (1, 2)


def test_equal_readings_are_answered_alike_and_in_their_place(trace):
    attacker = RecurrentNet(HOME, **SMALL).fit(trace[:200])
    readings = np.round(trace.readings[:60], -2)
    one_by_one = np.vstack([attacker.predict_power([reading]) for reading in readings])
    np.testing.assert_allclose(attacker.predict_power(readings), one_by_one, rtol=1e-4, atol=1e-3)


def test_windows_stay_inside_their_run():
    starts = np.array([True, False, False, True, False])
    windows = _Windows(np.arange(5.0), starts, 3)
    assert windows[np.array([0, 1, 2, 3, 4])].tolist() == [
        [0, 0, 1],
        [0, 1, 2],
        [1, 2, 2],
        [3, 3, 4],
        [3, 4, 4],
    ]


def test_layers_have_the_published_sizes():
    net = RecurrentNet(HOME)._build()
    shapes = {name: tuple(value.shape) for name, value in net.state_dict().items()}
    assert shapes["convolution.weight"] == (16, 1, 4)
    assert shapes["sequence.weight_hh_l0_reverse"] == (4 * 128, 128)
    assert shapes["summary.weight_ih_l0"] == (4 * 256, 2 * 128)
    assert shapes["dense.weight"] == (128, 2 * 256)
    assert shapes["output.weight"] == (1, 128)


def test_a_progress_bar_goes_to_standard_error(trace, capsys):
    RecurrentNet(HOME, **SMALL, progress=True).fit(trace[:64])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("damage", [{"weights_": ()}, {"weights_": ((np.ones(3),), 1)}])
def test_a_damaged_file_is_refused(trace, tmp_path, damage):
    attacker = RecurrentNet(HOME, **SMALL).fit(trace[:64])
    vars(attacker).update(damage)
    attacker.save(tmp_path / "attacker.npz")
    with pytest.raises(DataError, match="damaged"):
        RecurrentNet.load(tmp_path / "attacker.npz")


def test_predicting_needs_fit():
    with pytest.raises(NotFittedError, match="call fit"):
        RecurrentNet(HOME).predict([1.0])


@pytest.mark.parametrize("settings", [{"window": 0}, {"hidden": (3,)}, {"rate": 0}])
def test_bad_parameters_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        RecurrentNet(HOME, settings=settings)
    with pytest.raises(InputError, match="seed"):
        RecurrentNet(HOME, seed=-1)


def test_one_reading_needs_no_recurrent_step():
    """The short form for windows of one reading against PyTorch's own LSTM."""
    lstm = torch.nn.LSTM(5, 7, batch_first=True, bidirectional=True)
    values = torch.randn(11, 5, generator=torch.Generator().manual_seed(0))
    expected, _ = lstm(values[:, None, :])
    torch.testing.assert_close(_one_step(lstm, values), expected[:, 0])


def test_a_missing_torch_is_reported_at_once(monkeypatch):
    monkeypatch.setattr(neural, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[deep\]"'):
        RecurrentNet(HOME)


def test_torch_is_imported_only_to_train():
    code = (
        "import sys, hushmeter as hm\n"
        "hm.attackers['rnn'](hm.synth.ready_home('evening'))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
