"""Writers of traces as files that other tools can read.

A Green Button feed has one UsagePoint, one MeterReading, one ReadingType (energy delivered per
interval), and an IntervalBlock for every stretch of at most 10 000 readings without a gap. The feed
contains no name or address. Its identifiers are derived from the position of an entry in the feed,
so that the same trace always gives the same file.

A file of NILMTK has one building with a table /building1/elec/meter<j> for each meter. NILMTK finds
the table of a meter by `data_location` in the metadata, and an appliance by its type and by its
number among the appliances of that type. The types are those of NILM Metadata [1]_.

References
----------
.. [1] J. Kelly and W. Knottenbelt, "Metadata for energy disaggregation", Proc. 2nd IEEE Int.
   Workshop on Consumer Devices and Systems, 2014.
"""

from __future__ import annotations

import re
import tomllib
import uuid
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.checks import FloatArray
from hushmeter.errors import InputError, MissingExtraError
from hushmeter.files import refuse_overwrite, table_bytes, write_bytes
from hushmeter.trace import Trace, iso

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["meter_bytes", "meter_format", "write_meter"]

FORMATS = {".csv": "csv", ".parquet": "parquet", ".h5": "h5", ".hdf5": "h5", ".xml": "xml"}
ATOM, ESPI = "http://www.w3.org/2005/Atom", "http://naesb.org/espi"
BASE = "/espi/1_1/resource"
POINT = f"{BASE}/RetailCustomer/1/UsagePoint/1"
METER = f"{POINT}/MeterReading/1"
TYPE = f"{BASE}/ReadingType/1"
# Powers of ten of the unit: nano-watt-hours, or micro-watt-hours if a value would need more than
# the 48 bits of an ESPI integer.
FINE, COARSE = -9, -6
LARGEST_VALUE = 2.0**47
LONGEST_BLOCK = 10_000
DEVICE = "hushmeter"
UNKNOWN = "unknown"
LARGEST_W = 1e9
# NILMTK 0.4.1 comes with pandas 0.25, which reads an index of nanoseconds under this name only.
OLD_INDEX_KIND, OLD_PANDAS_LAYOUT = "datetime64", "0.15.2"


def write_meter(path: str | Path, trace: Trace, *, force: bool = False) -> None:
    """Write readings as CSV, Parquet, NILMTK's HDF5 or Green Button XML, by the file's name.

    Parameters
    ----------
    path : str or Path
        Ends in .csv, .parquet, .h5 (or .hdf5) or .xml.
    trace : Trace
        The readings [W].
    force : bool, default False
        Overwrite an existing file.

    Raises
    ------
    InputError
        If the name has another ending, or the format cannot hold the trace.
    DataError
        If the file exists and `force` is not set, or cannot be written.
    MissingExtraError
        If HDF5 is asked for and the extra `nilmtk` is not installed.

    Notes
    -----
    CSV and Parquet hold the columns timestamp (UTC, start of the interval) and watts, and one
    column for each appliance whose power is known. HDF5 holds one building in NILMTK's layout:
    meter 1 is the site meter, the others are the appliances. Green Button XML holds watt-hours
    per interval and no appliances.

    Examples
    --------
    >>> hm.write_meter("meter.csv", hm.Trace([120.0, 2120.0], 60.0, "2024-01-01T00:00Z"))
    >>> len(hm.read_meter("meter.csv"))
    2
    """
    target = Path(path)
    kind = meter_format(target)
    refuse_overwrite(target, force)
    content = meter_bytes(trace, kind)
    write_bytes(target, content, force=force)


def meter_format(path: Path) -> str:
    """Return the format of a file of readings by its name."""
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"{path} must end in one of {', '.join(FORMATS)}.")
    if kind == "h5":
        check_extra()
    return kind


def meter_bytes(trace: Trace, kind: str) -> bytes:
    """Return the content of a file of this kind with the readings of a trace."""
    if kind == "h5":
        return nilmtk_bytes(trace)
    if kind == "xml":
        return green_button_text(trace).encode()
    return _table_bytes(trace, kind)


def _table_bytes(trace: Trace, kind: str) -> bytes:
    """The columns timestamp, watts and one for each appliance, as CSV or Parquet."""
    columns = {"timestamp": trace.times, "watts": trace.readings}
    for name, power in appliance_columns(trace).items():
        if name in columns:
            raise InputError(f"an appliance cannot be named {name!r}, like a column of the meter.")
        columns[name] = power
    return table_bytes(columns, kind)


def appliance_columns(trace: Trace) -> dict[str, FloatArray]:
    """Return the power of each appliance [W] by its name, or by its number without names."""
    if trace.power is None:
        return {}
    names = trace.names or [f"appliance_{i + 1}" for i in range(trace.power.shape[1])]
    return dict(zip(names, trace.power.T, strict=True))


def green_button_text(trace: Trace) -> str:
    """Return a feed with the energy of every interval in whole nano- or micro-watt-hours."""
    if abs(trace.interval_s - round(trace.interval_s)) > 1e-9:
        raise InputError(
            f"Green Button needs an interval of whole seconds, but the trace has "
            f"{trace.interval_s:g} s; release means over longer intervals."
        )
    return "".join(_feed(trace))


def _feed(trace: Trace) -> Iterator[str]:
    """The parts of the XML text, in order."""
    updated = iso(trace.times[-1].astype("datetime64[s]"))
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield f'<feed xmlns="{ATOM}">\n<id>{_identifier("feed")}</id>\n'
    yield f"<title>Green Button Usage Feed</title>\n<updated>{updated}</updated>\n"
    service = "<ServiceCategory><kind>0</kind></ServiceCategory>"
    yield _entry(
        POINT, (f"{POINT}/MeterReading",), _espi("UsagePoint", service), "Electricity", updated
    )
    energy = trace.readings * (trace.interval_s / 3600)
    exponent = FINE if np.abs(energy).max() * 10.0**-FINE < LARGEST_VALUE else COARSE
    links = (f"{METER}/IntervalBlock", TYPE)
    yield _entry(METER, links, _espi("MeterReading", ""), "Released readings", updated)
    yield _entry(
        TYPE, (), _espi("ReadingType", _reading_type(trace, exponent)), "Energy delivered", updated
    )
    for number, (first, stop) in enumerate(_blocks(trace), 1):
        block = _espi("IntervalBlock", _block(trace, energy, exponent, first, stop))
        yield _entry(f"{METER}/IntervalBlock/{number}", (), block, "", updated)
    yield "</feed>\n"


def _reading_type(trace: Trace, exponent: int) -> str:
    """The ReadingType: energy (kind 12) in watt-hours (uom 72), delivered (flowDirection 1)."""
    parts = {
        "accumulationBehaviour": 4,
        "commodity": 1,
        "currency": 840,
        "dataQualifier": 12,
        "flowDirection": 1,
        "intervalLength": round(trace.interval_s),
        "kind": 12,
        "phase": 769,
        "powerOfTenMultiplier": exponent,
        "timeAttribute": 0,
        "uom": 72,
    }
    return "".join(f"<{name}>{value}</{name}>" for name, value in parts.items())


def _blocks(trace: Trace) -> Iterator[tuple[int, int]]:
    """First row and row after the last of every block; no block contains a gap."""
    for run in trace.runs:
        for first in range(run.start, run.stop, LONGEST_BLOCK):
            yield first, min(run.stop, first + LONGEST_BLOCK)


def _block(trace: Trace, energy: FloatArray, exponent: int, first: int, stop: int) -> str:
    """The readings of one IntervalBlock."""
    seconds = trace.times[first:stop].astype("datetime64[s]").astype(np.int64)
    units = np.rint(energy[first:stop] * 10.0**-exponent).astype(np.int64)
    length = round(trace.interval_s)
    head = _period("interval", length * (stop - first), int(seconds[0]))
    readings = (
        f"<IntervalReading>{_period('timePeriod', length, start)}<value>{value}</value>"
        "</IntervalReading>\n"
        for start, value in zip(seconds.tolist(), units.tolist(), strict=True)
    )
    return head + "".join(readings)


def _period(tag: str, duration: int, start: int) -> str:
    """A length of time and its start, both in seconds."""
    return f"<{tag}><duration>{duration}</duration><start>{start}</start></{tag}>"


def _espi(tag: str, inner: str) -> str:
    """An element of the ESPI name space."""
    return f'<{tag} xmlns="{ESPI}">{inner}</{tag}>'


def _entry(link: str, related: tuple[str, ...], content: str, title: str, updated: str) -> str:
    """An entry of the Atom feed with its links."""
    up = link.rsplit("/", 1)[0]
    links = "".join(f'<link rel="related" href="{href}"/>' for href in related)
    return (
        f"<entry><id>{_identifier(link)}</id>"
        f'<link rel="self" href="{link}"/><link rel="up" href="{up}"/>{links}'
        f"<title>{title}</title><content>{content}</content>"
        f"<published>{updated}</published><updated>{updated}</updated></entry>\n"
    )


def _identifier(name: str) -> str:
    """An identifier that depends on nothing but the position in the feed."""
    return f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'hushmeter:{name}')}"


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
    """The path of the table of a meter within an HDF5 file of NILMTK."""
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


@cache
def appliance_types() -> dict[str, list[str]]:
    """The types of NILM Metadata, and the names that are understood as each of them."""
    text = Path(__file__).with_name("appliance_types.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def appliance_type(name: str) -> str:
    """Return NILMTK's type for the name of an appliance, or "unknown"."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    words = " ".join(re.findall(r"[a-z]+", spaced.lower()))
    best, found = (0, 0), UNKNOWN
    for kind, phrases in appliance_types().items():
        for phrase in phrases:
            for match in re.finditer(rf"\b{phrase}s?\b", words):
                if (len(phrase), match.start()) > best:
                    best, found = (len(phrase), match.start()), kind
    return found
