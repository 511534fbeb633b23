"""What a file of fleet readings must hold, before a single row is looked at.

Five columns are mandatory: the meter's id, the time (with a zone: an instant), the value, its
unit and the interval it stands for. Whatever else there is, a feeder or a tariff, is carried
through as it is.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from hushmeter.errors import DataError, InputError
from hushmeter.trace import UNITS

if TYPE_CHECKING:
    import pyarrow as pa

PERIODS = ("day", "month")
TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True)
class Columns:
    """Names of the mandatory columns."""

    meter: str = "meter"
    time: str = "time"
    value: str = "value"
    unit: str = "unit"
    interval: str = "interval_s"

    @property
    def names(self) -> tuple[str, ...]:
        """All five, in order."""
        return (self.meter, self.time, self.value, self.unit, self.interval)


def parse_columns(text: str | None) -> Columns:
    """Columns named otherwise, as `meter=mpan,time=read_at`."""
    names: dict[str, str] = {}
    known = asdict(Columns())
    for part in (text or "").split(",") if text else ():
        role, sign, name = part.partition("=")
        if not sign or role.strip() not in known or not name.strip():
            raise InputError(
                f"columns must be ROLE=NAME pairs with a role of {', '.join(known)}; got {part!r}."
            )
        names[role.strip()] = name.strip()
    columns = Columns(**names)
    if len(set(columns.names)) < len(columns.names):
        raise InputError(f"two roles share a column: {', '.join(columns.names)}.")
    return columns


def check_schema(schema: pa.Schema, columns: Columns) -> None:
    """Refuse a file whose columns are absent, doubled or of the wrong kind."""
    for name in columns.names:
        count = len(schema.get_all_field_indices(name))
        if count != 1:
            found = ", ".join(schema.names)
            problem = f"has no column {name!r}" if count == 0 else f"has {count} columns {name!r}"
            raise DataError(f"{problem} (it has {found}); name it with --columns.")
    _check_kinds(schema, columns)
    for field in schema:
        if any(map(_has_parts_aside, _inner(field.type))):
            raise DataError(
                f"has a column {field.name!r} with dictionaries or views within its {field.type}; "
                "store it plainly."
            )


def _inner(kind: pa.DataType) -> list[pa.DataType]:
    """Types of the parts of a nested type."""
    return [kind.field(i).type for i in range(kind.num_fields)]


def _has_parts_aside(kind: pa.DataType) -> bool:
    """Whether values lie outside the rows, where those of rows left out would be carried along."""
    from pyarrow import types

    aside = types.is_dictionary(kind) or types.is_string_view(kind) or types.is_binary_view(kind)
    return bool(aside or any(map(_has_parts_aside, _inner(kind))))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Text and bytes as Arrow can filter them: views as what they show."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_string_view(kind):
        return pa.string()
    return pa.binary() if types.is_binary_view(kind) else kind


def _check_kinds(schema: pa.Schema, columns: Columns) -> None:
    from pyarrow import types

    kinds = {name: value_type(schema.field(name).type) for name in columns.names}
    time = kinds[columns.time]
    if not types.is_timestamp(time):
        raise DataError(f"column {columns.time!r} must hold timestamps, but is {time}.")
    if time.tz is None:
        raise DataError(
            f"column {columns.time!r} has times without a zone; store them as UTC instants."
        )
    checks = {
        columns.meter: (_is_name, "text or whole numbers"),
        columns.value: (_is_number, "numbers"),
        columns.unit: (_is_text, f"text ({', '.join(UNITS)})"),
        columns.interval: (types.is_integer, "whole seconds"),
    }
    for name, (fits, wanted) in checks.items():
        if not fits(kinds[name]):
            raise DataError(f"column {name!r} must hold {wanted}, but is {kinds[name]}.")


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values, through a dictionary."""
    from pyarrow import types

    return kind.value_type if types.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_name(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(_is_text(kind) or types.is_integer(kind))


def _is_number(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))
