from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.apps.plot import readings as plot_readings
from hushmeter.apps.plot import save_figure
from hushmeter.files import write_table
from hushmeter.learn.homes import learn_home
from hushmeter.learn.inspection import find_regime, inspect_recording, sentences
from hushmeter.read import read_home_recording, read_recording

NEEDED = {
    "format", "readings", "interval_s", "start", "end", "unit", "gaps", "duplicates", "regime",
}  # fmt: skip


@pytest.mark.parametrize(
    ("interval", "name"),
    [(1, "single appliances"), (10, "single appliances"), (60, "large appliances"),
     (300, "long runs"), (900, "occupancy"), (3600, "occupancy"), (86_400, "habits")],
)  # fmt: skip
def test_regimes(interval, name):
    assert find_regime(interval)[0] == name


def write(tmp_path, text, name="meter.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_everything_is_counted(tmp_path):
    rows = [(0, 100), (6, 250), (6, 250), (12, -5), (30, 90), (24, 80), (36, 70)]
    text = "timestamp,watts\n" + "".join(f"{1_700_000_000 + t},{w}\n" for t, w in rows)
    found = inspect_recording(read_recording(write(tmp_path, text))).to_dict()
    assert set(found) >= NEEDED
    assert (found["readings"], found["kept"]) == (7, 6)
    assert (found["gaps"], found["duplicates"], found["reversed"]) == (1, 1, 1)
    assert found["negative"] == 1
    assert found["missing_s"] == 6.0
    assert found["start"] == "2023-11-14T22:13:20Z"
    assert found["end"] == "2023-11-14T22:14:02Z"
    assert found["energy_kwh"] == pytest.approx(585 * 6 / 3.6e6)


def test_the_regime_comes_first_and_notes_last(tmp_path):
    text = "timestamp,kWh\n" + "".join(
        f"2024-01-01T{h:02d}:00Z,{55 + (-1) ** h}\n" for h in range(9)
    )
    lines = sentences(inspect_recording(read_recording(write(tmp_path, text))))
    assert lines[0].startswith("At 1 h a reading, mostly occupancy shows")
    assert "check the unit" in lines[-1]


def test_truth_is_checked_where_it_is_there(tmp_path):
    trace = hm.synth.trace(hm.synth.ready_home("redd-like"), 3000, 0.99, seed=1)
    hm.write_meter(tmp_path / "home.parquet", trace)
    found = inspect_recording(read_home_recording(tmp_path / "home.parquet"))
    truth = found.to_dict()["truth"]
    assert truth["sparsity"] == pytest.approx(0.99, abs=0.01)
    assert any("Assumption 1" in line for line in truth["assumptions"])
    assert not any("Assumption" in line for line in sentences(found))


def test_a_picture_of_a_trace_leaves_gaps_blank(tmp_path):
    steps = np.arange(5000) + 3000 * (np.arange(5000) > 2500)
    trace = hm.Trace(np.random.default_rng(0).uniform(0, 900, 5000), 6.0, steps=steps)
    figure, data = plot_readings.draw_trace(trace, "a gap")
    assert np.isnan(data["mean_w"]).sum() > 500
    assert np.nanmax(data["max_w"]) == trace.readings.max()
    sizes = {len(column) for column in data.values()}
    assert len(sizes) == 1
    assert max(sizes) <= plot_readings.POINTS
    paths = save_figure(figure, tmp_path, "trace", data)
    assert all(path.stat().st_size > 500 for path in paths.values())


def test_one_reading_can_be_drawn():
    figure, data = plot_readings.draw_trace(hm.Trace([5.0], 6.0), "one")
    assert len(figure.axes) >= 1
    assert {len(column) for column in data.values()} == {1}


def test_thresholds_are_drawn_for_every_circuit():
    trace = hm.synth.trace(hm.synth.ready_home("evening"), 4000, 0.99, seed=1)
    learnt = learn_home(trace)
    figure, data = plot_readings.draw_thresholds(learnt, trace.power)
    visible = [axes for axes in figure.axes if axes.get_visible()]
    assert len(visible) == 8
    assert set(data["circuit"]) == set(trace.names)
    assert sum(data["readings"]) == pytest.approx(8 * 4000, rel=0.01)


def test_kilowatts_taken_for_watts_are_noticed(tmp_path):
    text = "timestamp,watts\n" + "".join(f"{1_700_000_000 + 60 * i},0.{i + 1}\n" for i in range(8))
    with pytest.raises(hm.errors.DataError, match=r"up to 0\.8 W are not those of a home in watts"):
        read_recording(write(tmp_path, text))
    off = "timestamp,power\n" + "".join(f"{1_700_000_000 + 60 * i},0\n" for i in range(8))
    assert not inspect_recording(read_recording(write(tmp_path, off))).warnings


def test_negative_readings_get_a_sentence_in_inspect_and_learn(tmp_path):
    loads = hm.synth.trace(hm.synth.ready_home("evening"), 3 * 1440, interval_s=60.0, seed=3)
    net = hm.synth.add_solar(loads, 4000.0, seed=3)
    file = tmp_path / "net.csv"
    write_table(file, {"timestamp": net.times, "watts": net.readings.round(1)})
    said = [line for line in sentences(inspect_recording(read_recording(file))) if "--gen" in line]
    assert len(said) == 1
    assert said[0].startswith(f"{(net.readings < 0).sum()} of {len(net)} readings are negative")
    assert any("learnt from net readings" in note for note in learn_home(net).notes)
    assert not any("learnt from net readings" in note for note in learn_home(loads).notes)
