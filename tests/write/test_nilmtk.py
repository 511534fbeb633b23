"""What NILMTK needs to open a file of the writer.

NILMTK itself is compared where it is installed. Elsewhere the tests follow the steps of its
`DataSet`, `Building`, `MeterGroup` and `ElecMeter` on the metadata of the file.
"""

from __future__ import annotations

import numpy as np
import pytest

import hushmeter as hm
from hushmeter.write import appliance_type, appliance_types

pd = pytest.importorskip("pandas")
tables = pytest.importorskip("tables", reason="needs the extra nilmtk")

NAMES = ("fridge", "Lamp 1", "lamp_2", "WashingMachine", "thing")


@pytest.fixture
def trace():
    power = np.random.default_rng(1).uniform(0, 2000, (40, len(NAMES)))
    steps = np.arange(40) + 5 * (np.arange(40) > 20)
    return hm.Trace(power.sum(axis=1), 6.0, "2024-01-01T00:00Z", None, power, NAMES, steps)


@pytest.fixture
def path(trace, tmp_path):
    hm.write_meter(tmp_path / "home.h5", trace)
    return tmp_path / "home.h5"


def metadata_of(path, node):
    with tables.open_file(str(path)) as file:
        return file.get_node(node)._v_attrs.metadata


def test_every_meter_has_a_table_where_its_metadata_say(trace, path):
    building = metadata_of(path, "/building1")
    devices = metadata_of(path, "/")["meter_devices"]
    columns = [trace.readings, *trace.power.T]
    assert list(building["elec_meters"]) == list(range(1, 7))
    with pd.HDFStore(path, "r") as store:
        for (number, meter), watts in zip(building["elec_meters"].items(), columns, strict=True):
            frame = store[meter["data_location"]]
            assert list(frame.columns) == [("power", "active")]
            assert frame.columns.names == ["physical_quantity", "type"]
            assert str(frame.index.tz) == "UTC"
            times = frame.index.tz_localize(None).to_numpy()
            np.testing.assert_array_equal(times, trace.times)
            np.testing.assert_array_equal(frame.to_numpy()[:, 0], watts)
            device = devices[meter["device_model"]]
            assert (device["sample_period"], type(device["sample_period"])) == (6, int)
            quantities = [(m["physical_quantity"], m["type"]) for m in device["measurements"]]
            assert quantities == list(frame.columns)
            above = None if meter.get("site_meter") else meter["submeter_of"]
            assert (above is None) == (number == 1)
            assert above is None or building["elec_meters"][above]["site_meter"]


def test_appliances_have_types_and_numbers_within_a_type(path):
    building = metadata_of(path, "/building1")
    found = [(a["type"], a["instance"], a["meters"]) for a in building["appliances"]]
    assert found == [
        ("fridge", 1, [2]),
        ("light", 1, [3]),
        ("light", 2, [4]),
        ("washing machine", 1, [5]),
        ("unknown", 1, [6]),
    ]
    assert [a["original_name"] for a in building["appliances"]] == list(NAMES)
    assert building["instance"] == 1


def test_the_pandas_of_nilmtk_finds_its_names(path):
    with tables.open_file(str(path)) as file:
        for number in range(1, 7):
            node = file.get_node(f"/building1/elec/meter{number}")
            assert node._v_attrs.info["index"]["tz"] == "UTC"
            assert node._v_attrs.pandas_version == "0.15.2"
            assert node.table._v_attrs.index_kind == "datetime64"
            assert node.table.cols.index[0] == 1_704_067_200_000_000_000


def test_a_meter_alone_is_written_and_read_back(tmp_path):
    alone = hm.Trace([5.0, 6.5, -7.0], 1800.0, "2024-01-01T00:00Z")
    hm.write_meter(tmp_path / "meter.h5", alone)
    back = hm.read_meter(tmp_path / "meter.h5")
    assert back.power is None
    assert back.interval_s == 1800.0
    np.testing.assert_array_equal(back.readings, alone.readings)
    np.testing.assert_array_equal(back.times, alone.times)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Fridge-Freezer", "fridge freezer"),
        ("kitchen lights", "light"),
        ("MicrowaveOven_995FCC", "microwave"),
        ("washer_dryer_2", "washer dryer"),
        ("heat-pump dryer", "tumble dryer"),
        ("car charger 11 kW", "electric vehicle"),
        ("ac1", "air conditioner"),
        ("wall oven", "electric oven"),
        ("actual", "unknown"),
        ("B1E", "unknown"),
        ("", "unknown"),
    ],
)
def test_names_become_types(name, kind):
    assert appliance_type(name) == kind


def test_a_type_is_its_own_name():
    assert [kind for kind in appliance_types() if appliance_type(kind) != kind] == []


def test_the_types_are_those_of_nilm_metadata():
    nilm_metadata = pytest.importorskip("nilm_metadata", reason="NILM Metadata is not on PyPI")
    assert set(appliance_types()) <= set(nilm_metadata.get_appliance_types())


def test_nilmtk_opens_the_file(trace, path):
    nilmtk = pytest.importorskip("nilmtk", reason="NILMTK is not on PyPI")
    elec = nilmtk.DataSet(str(path)).buildings[1].elec
    mains = next(elec.mains().power_series())
    np.testing.assert_allclose(mains.to_numpy(), trace.readings)
    second_lamp = next(elec["light", 2].power_series())
    np.testing.assert_allclose(second_lamp.to_numpy(), trace.power[:, 2])
