"""Writer of NILMTK's HDF5: one building with a table /building1/elec/meter<j> for each meter.

NILMTK finds the table of a meter by `data_location` in the metadata, and an appliance by its type
and by its number among the appliances of that type. The types are those of NILM Metadata [1]_.

References
----------
.. [1] J. Kelly and W. Knottenbelt, "Metadata for energy disaggregation", Proc. 2nd IEEE Int.
   Workshop on Consumer Devices and Systems, 2014.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hushmeter.checks import FloatArray
from hushmeter.errors import MissingExtraError
from hushmeter.trace import Trace, iso
from hushmeter.write import appliance_columns

if TYPE_CHECKING:
    import pandas as pd

DEVICE = "hushmeter"
UNKNOWN = "unknown"
LARGEST_W = 1e9
TYPES = {
    "active speaker": ("active speaker", "speaker"),
    "air conditioner": ("ac", "air con", "air conditioner", "air conditioning", "aircon"),
    "audio system": ("audio", "hi fi", "hifi", "stereo"),
    "breadmaker": ("bread maker", "breadmaker"),
    "broadband router": ("broadband router", "router"),
    "clothes iron": ("clothes iron", "iron"),
    "coffee maker": ("coffee machine", "coffee maker", "coffeemaker", "espresso"),
    "computer": ("computer", "pc"),
    "computer monitor": ("computer monitor", "monitor"),
    "dehumidifier": ("dehumidifier",),
    "desktop computer": ("desktop", "desktop computer", "desktop pc", "pc desktop"),
    "dish washer": ("dish washer", "dishwaser", "dishwasher"),
    "electric furnace": ("electric furnace", "furnace"),
    "electric hot tub heater": ("hot tub", "jacuzzi"),
    "electric oven": ("electric oven", "oven", "wall oven"),
    "electric shower heater": ("electric shower", "shower"),
    "electric space heater": ("electric heat", "electric heater", "heater", "space heater"),
    "electric stove": ("cooker", "cooktop", "electric stove", "hob", "range", "stove"),
    "electric vehicle": ("car charger", "electric vehicle", "ev", "ev charger"),
    "electric water heating appliance": ("hot water", "water heater", "water heating appliance"),
    "external hard disk": ("external hard disk", "hard disk"),
    "fan": ("fan",),
    "food processor": ("food processor", "mixer"),
    "freezer": ("freezer",),
    "fridge": ("fridge", "refrigerator"),
    "fridge freezer": ("fridge freezer",),
    "fryer": ("fryer",),
    "games console": ("console", "games console"),
    "hair dryer": ("hair dryer", "hairdryer"),
    "heat pump": ("heat pump",),
    "immersion heater": ("immersion", "immersion heater"),
    "kettle": ("kettle",),
    "laptop computer": ("laptop", "laptop computer"),
    "light": ("lamp", "light", "lighting"),
    "microwave": ("microwave", "microwave oven"),
    "modem": ("modem",),
    "printer": ("printer",),
    "rice cooker": ("rice cooker",),
    "running machine": ("running machine", "treadmill"),
    "slow cooker": ("slow cooker",),
    "smoke alarm": ("smoke", "smoke alarm"),
    "sockets": ("outlet", "plug", "socket"),
    "swimming pool pump": ("pool pump",),
    "television": ("television", "tv"),
    "toaster": ("toaster",),
    "tumble dryer": ("clothes dryer", "dryer", "heat pump dryer", "laundry dryer", "tumble dryer"),
    "vacuum cleaner": ("hoover", "vacuum", "vacuum cleaner"),
    "washer dryer": ("washer dryer",),
    "washing machine": ("clothes washer", "laundry", "washer", "washing machine"),
    "waste disposal unit": ("disposal", "waste disposal unit"),
    "water pump": ("circulation pump", "pump", "water pump"),
}
"""Types of NILM Metadata, and the names that are understood as each of them."""
# NILMTK 0.4.1 comes with pandas 0.25, which reads an index of nanoseconds under this name only.
OLD_INDEX_KIND, OLD_PANDAS_LAYOUT = "datetime64", "0.15.2"


def check_extra() -> None:
    """Raise `MissingExtraError` if PyTables is not installed."""
    try:
        import tables  # noqa: F401
    except ImportError:
        raise MissingExtraError("writing NILMTK's HDF5", "nilmtk") from None


def nilmtk_bytes(trace: Trace) -> bytes:
    """Return a trace as the file of one building in NILMTK's layout, active power in watts."""
    check_extra()
    import pandas as pd

    appliances = appliance_columns(trace)
    in_memory: dict[str, Any] = {"driver": "H5FD_CORE", "driver_core_backing_store": 0}
    with pd.HDFStore("released.h5", "w", complevel=5, complib="zlib", **in_memory) as store:
        root: Any = store.root
        for number, column in enumerate((trace.readings, *appliances.values()), 1):
            key = _location(number)
            store.put(key, _frame(trace, column), format="table", track_times=False)
            _make_readable_by_old_pandas(root._v_file.get_node(key))
        root._v_attrs.metadata = _dataset(trace)
        root.building1._v_attrs.metadata = _building(appliances)
        root._v_file.flush()
        content: bytes = root._v_file.get_file_image()
    return content


def _location(number: int) -> str:
    """Where the table of a meter is."""
    return f"/building1/elec/meter{number}"


def _make_readable_by_old_pandas(node: Any) -> None:
    """Name the index and the time zone as pandas did when NILMTK 0.4.1 was made."""
    node._v_attrs.pandas_version = OLD_PANDAS_LAYOUT
    info = node._v_attrs.info
    info["index"]["tz"] = "UTC"
    node._v_attrs.info = info
    node.table._v_attrs.index_kind = OLD_INDEX_KIND


def _frame(trace: Trace, watts: FloatArray) -> pd.DataFrame:
    """The table of one meter with NILMTK's two-level header."""
    import pandas as pd

    header = pd.MultiIndex.from_tuples([("power", "active")], names=["physical_quantity", "type"])
    times = pd.DatetimeIndex(trace.times.astype("datetime64[ns]")).tz_localize("UTC")
    return pd.DataFrame(watts[:, None], index=times, columns=header)


def _dataset(trace: Trace) -> dict[str, Any]:
    """The metadata of the data set, with one meter device for all meters."""
    whole = float(trace.interval_s).is_integer()
    # NILMTK formats the period as a whole number of seconds where it is one.
    period = int(trace.interval_s) if whole else trace.interval_s
    device = {
        "model": DEVICE,
        "sample_period": period,
        "max_sample_period": period,
        "measurements": [
            {
                "physical_quantity": "power",
                "type": "active",
                "lower_limit": -LARGEST_W,
                "upper_limit": LARGEST_W,
            }
        ],
        "wireless": False,
    }
    return {
        "name": "hushmeter",
        "timezone": "UTC",
        "timeframe": {"start": iso(trace.times[0]), "end": iso(trace.times[-1])},
        "meter_devices": {DEVICE: device},
    }


def _building(names: Iterable[str]) -> dict[str, Any]:
    """The metadata of the building; every appliance is a meter below the site meter."""
    meters: dict[int, dict[str, Any]] = {
        1: {"site_meter": True, "device_model": DEVICE, "data_location": _location(1)}
    }
    appliances = []
    instances: dict[str, int] = {}
    for number, name in enumerate(names, 2):
        kind = appliance_type(name)
        instances[kind] = instances.get(kind, 0) + 1
        meters[number] = {
            "submeter_of": 1,
            "device_model": DEVICE,
            "data_location": _location(number),
        }
        appliances.append(
            {
                "type": kind,
                "original_name": name,
                "instance": instances[kind],
                "meters": [number],
            }
        )
    return {"instance": 1, "elec_meters": meters, "appliances": appliances}


def appliance_type(name: str) -> str:
    """Return NILMTK's type for the name of an appliance, or "unknown"."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    words = " ".join(re.findall(r"[a-z]+", spaced.lower()))
    best, found = (0, 0), UNKNOWN
    for kind, phrases in TYPES.items():
        for phrase in phrases:
            for match in re.finditer(rf"\b{phrase}s?\b", words):
                if (len(phrase), match.start()) > best:
                    best, found = (len(phrase), match.start()), kind
    return found
