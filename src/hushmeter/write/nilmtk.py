"""Writer of NILMTK's HDF5: one building with a table /building1/elec/meter<j> for each meter."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.checks import FloatArray
from hushmeter.errors import MissingExtraError
from hushmeter.files import atomic
from hushmeter.trace import Trace, iso
from hushmeter.write import appliance_columns

if TYPE_CHECKING:
    import pandas as pd

DEVICE = "hushmeter"


def write_nilmtk(path: Path, trace: Trace, *, force: bool = False) -> None:
    """Write a trace as one building in NILMTK's layout, active power in watts.

    Parameters
    ----------
    path : Path
    trace : Trace
        Meter 1 is the site meter; the meters from 2 on are the appliances with known power.
    force : bool, default False
        Overwrite an existing file.

    Raises
    ------
    MissingExtraError
        If the extra `nilmtk` is not installed.
    DataError
        If the file exists and `force` is not set, or cannot be written.
    """
    try:
        import tables  # noqa: F401
    except ImportError:
        raise MissingExtraError("writing NILMTK's HDF5", "nilmtk") from None
    import pandas as pd

    appliances = appliance_columns(trace)
    with (
        atomic(path, force=force) as temporary,
        pd.HDFStore(str(temporary), "w", complevel=5, complib="zlib") as store,
    ):
        for number, column in enumerate((trace.readings, *appliances.values()), 1):
            store.put(
                f"building1/elec/meter{number}",
                _frame(trace, column),
                format="table",
                track_times=False,
            )
        root: Any = store.root
        root._v_attrs.metadata = _dataset(trace)
        root.building1._v_attrs.metadata = _building(appliances)


def _frame(trace: Trace, watts: FloatArray) -> pd.DataFrame:
    """The table of one meter with NILMTK's two-level header."""
    import pandas as pd

    header = pd.MultiIndex.from_tuples([("power", "active")], names=["physical_quantity", "type"])
    times = pd.DatetimeIndex(trace.times.astype("datetime64[ns]")).tz_localize("UTC")
    return pd.DataFrame(watts[:, None], index=times, columns=header)


def _dataset(trace: Trace) -> dict[str, Any]:
    """The metadata of the data set, with one meter device for all meters."""
    device = {
        "model": DEVICE,
        "sample_period": trace.interval_s,
        "max_sample_period": 10 * trace.interval_s,
        "measurements": [{"physical_quantity": "power", "type": "active"}],
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
    meters: dict[int, dict[str, Any]] = {1: {"site_meter": True, "device_model": DEVICE}}
    appliances = []
    for number, name in enumerate(names, 2):
        meters[number] = {"submeter_of": 0, "device_model": DEVICE}
        appliances.append(
            {"type": "unknown", "original_name": name, "instance": number - 1, "meters": [number]}
        )
    return {"instance": 1, "elec_meters": meters, "appliances": appliances}
