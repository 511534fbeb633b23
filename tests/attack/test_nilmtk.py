"""The adapter, called as NILMTK's experiment API calls its disaggregators."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import hushmeter as hm
from hushmeter.attack.registry import NilmtkDisaggregator
from hushmeter.errors import DataError, InputError, NotFittedError

HOME = hm.Home([hm.Appliance("fridge", 120.0), hm.Appliance("kettle", 2000.0)], 20.0)
COLUMNS = pd.MultiIndex.from_tuples([("power", "active")], names=["physical_quantity", "type"])


def frame(values, start="2024-03-01", zone="Europe/London"):
    index = pd.date_range(start, periods=len(values), freq="60s", tz=zone)
    return pd.DataFrame(np.asarray(values, "float32")[:, None], index=index, columns=COLUMNS)


@pytest.fixture(scope="module")
def data():
    """Two chunks of mains and, per appliance, the same two chunks."""
    trace = hm.synth.trace(HOME, 2000, 0.97, interval_s=60, seed=1)
    cuts = [(slice(0, 1200), "2024-03-01"), (slice(1200, 2000), "2024-03-05")]
    mains = [frame(trace.readings[part], start) for part, start in cuts]
    meters = [
        (name, [frame(trace.power[part, i], start) for part, start in cuts])
        for i, name in enumerate(HOME.names)
    ]
    return trace, mains, meters


@pytest.mark.parametrize("name", ["co", "sparse-hmm", "ip", "alip", "hierarchical"])
def test_an_experiment_runs(data, name):
    trace, mains, meters = data
    model = NilmtkDisaggregator(name)
    assert name in model.MODEL_NAME
    assert model.chunk_wise_training is False
    model.partial_fit(mains, meters)
    answers = model.disaggregate_chunk(mains)
    assert [list(answer.columns) for answer in answers] == [list(HOME.names)] * 2
    assert all(answer.index.equals(m.index) for answer, m in zip(answers, mains, strict=True))
    # What NILMTK does with the answer.
    joined = pd.concat(answers, axis=0)
    for i, appliance in enumerate(HOME.names):
        values = joined[appliance].values.flatten()
        assert values.shape == (2000,)
        if name != "hierarchical":
            assert ((values > 60) == trace.truth()[:, i]).mean() > 0.95


def test_training_by_epochs_passes_the_epoch(data):
    _, mains, meters = data
    model = NilmtkDisaggregator("co", most=1)
    model.partial_fit(mains, meters, 3)
    model.partial_fit(mains, meters, current_epoch=4)
    assert model.attacker.most == 1


def test_a_given_home_is_used(data):
    _, mains, meters = data
    model = NilmtkDisaggregator("ip", home=HOME)
    model.partial_fit(mains, meters)
    assert model.attacker.home is HOME
    with pytest.raises(InputError, match="the home has fridge, kettle; got kettle, fridge"):
        model.partial_fit(mains, meters[::-1])


def test_gaps_between_chunks_are_kept(data, monkeypatch):
    _, mains, meters = data
    seen = []
    monkeypatch.setattr(
        "hushmeter.apps.nilm.combinatorial.CombinatorialOptimisation.fit",
        lambda self, trace: seen.append(trace) or self,
    )
    NilmtkDisaggregator("co").partial_fit(mains, meters)
    assert np.flatnonzero(seen[0].run_starts).tolist() == [0, 1200]
    assert seen[0].interval_s == 60


def test_several_phases_are_summed(data):
    _, mains, meters = data
    halves = [pd.concat([m / 2, m / 2], axis=1) for m in mains]
    model = NilmtkDisaggregator("co")
    model.partial_fit(mains, meters)
    whole, split = model.disaggregate_chunk(mains), model.disaggregate_chunk(halves)
    pd.testing.assert_frame_equal(whole[0], split[0])


def test_models_are_saved_and_loaded(data, tmp_path):
    _, mains, meters = data
    model = NilmtkDisaggregator("sparse-hmm")
    model.partial_fit(mains, meters)
    model.save_model(tmp_path)
    copy = NilmtkDisaggregator("sparse-hmm")
    copy.load_model(tmp_path)
    pd.testing.assert_frame_equal(
        copy.disaggregate_chunk(mains)[0], model.disaggregate_chunk(mains)[0]
    )


def test_bad_calls_are_one_sentence(data, tmp_path):
    _, mains, meters = data
    model = NilmtkDisaggregator("co")
    with pytest.raises(NotFittedError, match="needs partial_fit before disaggregate_chunk"):
        model.disaggregate_chunk(mains)
    with pytest.raises(NotFittedError, match="needs partial_fit before save_model"):
        model.save_model(tmp_path)
    with pytest.raises(DataError, match="as many readings as the mains"):
        model.partial_fit(mains[:1], meters)
    with pytest.raises(DataError, match="a chunk without readings"):
        model.partial_fit([mains[0][:0]], meters)
    idle = [("fridge", [m * 0 for m in mains])]
    with pytest.raises(DataError, match="fridge never draws more than 10 W"):
        model.partial_fit(mains, idle)
    with pytest.raises(DataError, match="repeat or go back"):
        model.partial_fit(mains[::-1], [(n, f[::-1]) for n, f in meters])
    with pytest.raises(hm.errors.UnknownNameError, match="no attacker named 'magic'"):
        NilmtkDisaggregator("magic")


def test_frames_without_times_are_served(data):
    _, mains, meters = data
    bare = [m.reset_index(drop=True) for m in mains]
    model = NilmtkDisaggregator("co")
    model.partial_fit(bare, meters)
    assert len(model.disaggregate_chunk(bare[:1])[0]) == 1200
