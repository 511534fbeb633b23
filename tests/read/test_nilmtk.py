"""NILMTK's HDF5: which meter is what, and what is refused."""

from __future__ import annotations

import pickle
import sys
from collections import OrderedDict
from contextlib import suppress
from datetime import date
from types import SimpleNamespace

import numpy as np
import pytest

from hushmeter import processes
from hushmeter.errors import DataError, MissingExtraError
from hushmeter.read import (
    ReadOptions,
    nilmtk,
    read_home_data,
    read_home_recording,
    read_recording,
)
from hushmeter.read.nilmtk import read_plain_pickle

pd = pytest.importorskip("pandas")
tables = pytest.importorskip("tables", reason="needs the extra nilmtk")
ACTIVE = ("power", "active")


@pytest.fixture
def store(tmp_path):
    """Write meters of one building; watts are a hundred times their number."""

    def write(meters, metadata=None, *, building=1, name="set.h5", rows=60):
        path = tmp_path / name
        times = pd.date_range("2014-01-01", periods=rows, freq="6s", tz="UTC")
        with pd.HDFStore(path, "a") as file:
            for number, quantity in meters.items():
                header = pd.MultiIndex.from_tuples([quantity], names=["physical_quantity", "type"])
                frame = pd.DataFrame(np.full((rows, 1), 100.0 * number), times, header)
                file.put(
                    f"building{building}/elec/meter{number}",
                    frame,
                    format="table",
                    track_times=False,
                )
            if metadata is not None:
                file.root._f_get_child(f"building{building}")._v_attrs.metadata = metadata
        return path

    return write


def test_without_metadata_meter_1_is_the_mains(store):
    found = read_home_recording(store({1: ACTIVE, 2: ACTIVE, 10: ACTIVE}))
    assert found.trace.names == ("meter2", "meter10")
    assert set(found.trace.readings) == {100.0}
    assert "No metadata: meter 1 is taken as the mains." in found.notes


def test_meters_of_no_appliance_are_circuits(store):
    metadata = {
        "elec_meters": {1: {"site_meter": True}},
        "appliances": [
            {"type": "fridge", "meters": [2]},
            {"original_name": "wine fridge", "meters": [2]},
        ],
    }
    found = read_home_recording(store({1: ACTIVE, 2: ACTIVE, 3: ACTIVE}, metadata))
    assert found.trace.names == ("fridge + wine fridge", "meter3")
    assert "Meters without an appliance are kept as circuits: 3." in found.notes


def test_disabled_meters_are_left_out(store):
    metadata = {
        "elec_meters": {
            1: {"site_meter": True, "disabled": True},
            2: {"site_meter": True},
            3: {"submeter_of": 0},
        },
        "appliances": [],
    }
    found = read_home_recording(store({1: ACTIVE, 2: ACTIVE, 3: ACTIVE}, metadata))
    assert set(found.trace.readings) == {200.0}
    assert found.trace.names == ("meter3",)
    assert "Meters that the metadata disable were left out: 1." in found.notes


def test_a_circuit_behind_another_is_not_counted_twice(store):
    metadata = {
        "elec_meters": {1: {"submeter_of": 0}, 2: {"submeter_of": 1}, 3: {"submeter_of": 0}},
        "appliances": [],
    }
    found = read_home_recording(store({1: ACTIVE, 2: ACTIVE, 3: ACTIVE}, metadata))
    assert found.mains == "sum of sub-meters"
    assert set(found.trace.readings) == {400.0}
    assert found.trace.names == ("meter1", "meter2", "meter3")
    note = "Meters lie behind other circuits and are parts of them: 2 behind 1."
    assert note in found.notes


def test_meters_behind_themselves_are_all_added(store):
    metadata = {
        "elec_meters": {1: {"submeter_of": 2}, 2: {"submeter_of": 1}},
        "appliances": [],
    }
    found = read_home_recording(store({1: ACTIVE, 2: ACTIVE}, metadata))
    assert set(found.trace.readings) == {300.0}
    assert "Meters lie behind themselves (submeter_of); all are added up." in found.notes


def test_a_building_with_only_a_meter_is_read(store):
    found = read_recording(store({1: ACTIVE}, {"elec_meters": {1: {"site_meter": True}}}))
    assert set(found.trace.readings) == {100.0}
    assert found.trace.power is None


def test_apparent_power_is_reported_and_reactive_is_refused(store):
    found = read_home_recording(store({1: ACTIVE, 2: ("power", "apparent")}))
    assert "meter2 is apparent power; no active power is there." in found.notes
    with pytest.raises(DataError, match=r"meter2 has no active or apparent.*power reactive"):
        read_home_data(store({1: ACTIVE, 2: ("power", "reactive")}, name="other.h5"))


def test_the_building_must_be_chosen(store):
    store({1: ACTIVE, 2: ACTIVE})
    path = store({1: ACTIVE, 2: ACTIVE}, building=2)
    with pytest.raises(DataError, match=r"holds 2 buildings \(1, 2\): choose one"):
        read_home_data(path)
    assert read_home_recording(path, ReadOptions(building=2)).trace.names == ("meter2",)


def test_broken_buildings_are_refused(store, tmp_path):
    only = store({1: ACTIVE})
    with pytest.raises(DataError, match="has only the meter, no column per appliance"):
        read_home_data(only)
    empty = store({1: ACTIVE, 2: ACTIVE}, name="a.h5")
    with tables.open_file(str(empty), "a") as file:
        file.root.building1.elec.meter2.table.remove_rows(0)
    with pytest.raises(DataError, match="the table of meter2 is empty"):
        read_home_data(empty)
    with tables.open_file(str(tmp_path / "b.h5"), "w") as file:
        file.create_group("/", "building1")
    with pytest.raises(DataError, match="has no elec group"):
        read_home_data(tmp_path / "b.h5")
    with tables.open_file(str(tmp_path / "b.h5"), "a") as file:
        file.create_group("/building1/elec", "meter1", createparents=True)
    with pytest.raises(DataError, match="meter1 has no table; write it with format='table'"):
        read_home_data(tmp_path / "b.h5")


@pytest.mark.parametrize("site", [np.bool_(True), np.array([1]), date(2024, 1, 1)])
def test_metadata_that_are_no_plain_data_are_refused_and_not_taken_for_nothing(store, site):
    metadata = {"elec_meters": {1: {"site_meter": site}, 2: {"site_meter": True}}}
    with pytest.raises(DataError, match="more than dicts, lists, text and numbers"):
        read_home_data(store({1: ACTIVE, 2: ACTIVE}, metadata))


PLAIN = [
    {1: [1, -2, 2**80, {"a": (1, "é", None, True, False, 2.5)}], (3, 4): {}},
    OrderedDict(a=[("power", "active")], b=()),
    [[], [[]], (1,), (1, 2, 3), (1, 2, 3, 4), [0] * 2000],
]


@pytest.mark.parametrize("value", PLAIN)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_pickles_are_read_without_being_loaded(value, protocol):
    shared = [value, value]
    assert read_plain_pickle(pickle.dumps(shared, protocol)) == shared


def test_a_pickle_of_names_that_numpy_needs_builds_nothing():
    address = pickle.dumps(np.dtype("O"), 0)[:-1]
    data = b"cnumpy._core.multiarray\nscalar\n(" + address + b"S'12345678'\ntR."
    assert isinstance(read_plain_pickle(data), nilmtk.Unread)


def test_a_damaged_pickle_gives_one_kind_of_error():
    rng = np.random.default_rng(0)
    for value in PLAIN:
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            data = np.frombuffer(pickle.dumps(value, protocol), np.uint8)
            for _ in range(200):
                torn = data.copy()
                torn[rng.integers(torn.size, size=2)] = rng.integers(256, size=2)
                with suppress(pickle.UnpicklingError):
                    read_plain_pickle(torn.tobytes())


def test_without_the_extra_the_pip_command_is_shown(store, tmp_path, monkeypatch):
    import hushmeter as hm

    path = store({1: ACTIVE, 2: ACTIVE})
    monkeypatch.setitem(sys.modules, "tables", None)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[nilmtk\]"'):
        read_home_data(path)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[nilmtk\]"'):
        hm.write_meter(tmp_path / "out.h5", hm.Trace([1.0, 2.0], 6.0))


@pytest.mark.parametrize(
    "ended", [{"returncode": -11, "stdout": b""},
              {"returncode": 0, "stdout": b""},
              {"returncode": 0, "stdout": pickle.dumps("half", protocol=4)[:-1]}]
)  # fmt: skip
def test_a_process_that_ends_is_refused(store, monkeypatch, ended):
    path = store({1: ACTIVE})
    monkeypatch.setattr(processes.subprocess, "run", lambda *_, **__: SimpleNamespace(**ended))
    with pytest.raises(DataError, match="HDF5 ended while it read it"):
        read_recording(path)


def test_a_process_that_may_not_start_another_reads_the_file_itself(store, monkeypatch):
    path = store({1: ACTIVE, 2: ACTIVE})
    expected = read_home_recording(path)

    def refuse(*_, **__):
        raise PermissionError("no programs here")

    monkeypatch.setattr(processes.subprocess, "run", refuse)
    found = read_home_recording(path)
    np.testing.assert_array_equal(found.trace.readings, expected.trace.readings)
    assert found.notes == expected.notes
