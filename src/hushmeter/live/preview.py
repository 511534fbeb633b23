"""A look at a whole table before anything of it is published.

A file that ends can be refused without telling anybody anything. A stream cannot: there a word
instead of a number counts as 0 W (see `payloads`), because a gap or an error would be public.
"""

from __future__ import annotations

import numpy as np

from hushmeter.checks import IntArray
from hushmeter.errors import DataError
from hushmeter.live.payloads import NoValue, Parser, PayloadError, Skip
from hushmeter.live.sources import LineSource


def is_even(times: IntArray, interval_ns: int) -> bool:
    """True if there is exactly one row for every interval from the first to the last time [ns]."""
    slots = np.unique(times // interval_ns)
    return bool(slots.size == times.size == slots[-1] - slots[0] + 1)


def preview(source: LineSource, parse: Parser, name: str) -> IntArray:
    """Read the times of all rows of a table, in their order [ns since 1970].

    Raise `DataError` if a row has no time, or neither a number nor a declared word for a missing
    value; the message has the name of the table.
    """
    times = []
    for line in source.read_all():
        try:
            moment, _ = parse("", line)
        except Skip:
            continue
        except NoValue as error:
            moment = error.moment
        except PayloadError as error:
            raise DataError(
                f"{name} cannot be published, because a row of it cannot be read: {error}; write a "
                "number, or leave the cell empty where the meter has no value."
            ) from None
        if moment is None:
            raise DataError(f"{name} cannot be published, because a row of it has no time.")
        times.append(moment)
    if not times:
        raise DataError(f"{name} has no readings.")
    return np.array(times, dtype=np.int64)
