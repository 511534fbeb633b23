"""What a fleet release asks for, as plain data that any scheduler can send to any worker."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hushmeter import __version__
from hushmeter.apps.fleet.clipping import CLIPPED
from hushmeter.apps.fleet.sum_terms import SumTerms
from hushmeter.apps.ledger import Charge, DayChange, Price, period_price
from hushmeter.apps.ledger.chain import canonical
from hushmeter.apps.ledger.charges import PERIODS, epsilon_text
from hushmeter.checks import once, one_of
from hushmeter.clock import check_zone
from hushmeter.errors import DataError, InputError
from hushmeter.files import json_text
from hushmeter.noise import DEFAULT_KIND
from hushmeter.privacy.units import Metered
from hushmeter.releases.receipt import describe_promise
from hushmeter.releases.request import Request
from hushmeter.trace import JOULES_PER_KWH, SECONDS_PER_DAY, SECONDS_PER_HOUR, check_interval
from hushmeter.trace import UNITS as UNITS_OF_VALUES

if TYPE_CHECKING:
    from hushmeter.apps.ledger import Ledger
    from hushmeter.releases.promise import Promise

SPANS = ("reading", "day")
OUTPUT_FORMAT = "3"
"""Version of the order of rows and of the columns of the output; a resumed job must have it."""


@dataclass(frozen=True)
class Columns:
    """Names of the mandatory columns of an input file.

    They hold the id of the meter (text or whole numbers), the start of the reading (a timestamp
    with a zone), the reading, its unit (W, kW, Wh or kWh) and its length [s].
    """

    meter: str = "meter"
    time: str = "time"
    value: str = "value"
    unit: str = "unit"
    interval: str = "interval_s"

    @property
    def names(self) -> tuple[str, ...]:
        """All five names in order."""
        return (self.meter, self.time, self.value, self.unit, self.interval)


@dataclass(frozen=True)
class InputFormat:
    """What the input files do not state themselves."""

    # Unit of the values of files without a unit column, and of all released values: W, kW, Wh or
    # kWh.
    unit: str | None = None
    tz: str | None = None  # Time zone of times without a zone, such as Europe/Berlin
    interval_s: int | None = None  # Length of a reading of files without that column [s]
    decimal: str | None = None  # Decimal mark of values that are text; a point by default

    def __post_init__(self) -> None:
        if self.decimal is not None:
            one_of("decimal", self.decimal, ("point", "comma"))
        if self.unit is not None:
            one_of("unit", self.unit, UNITS_OF_VALUES)
        if self.tz is not None:
            check_zone(self.tz)


def parse_columns(text: str | None) -> Columns:
    """Read other names of the columns from pairs such as `meter=mpan,time=read_at`."""
    pairs: list[tuple[str, str]] = []
    known = asdict(Columns())
    for part in (text or "").split(",") if text else ():
        role, sign, name = part.partition("=")
        if not sign or role.strip() not in known or not name.strip():
            raise InputError(
                f"columns must be ROLE=NAME pairs with a role of {', '.join(known)}; got {part!r}."
            )
        pairs.append((role.strip(), name.strip()))
    columns = Columns(**once("columns", pairs))
    if len(set(columns.names)) < len(columns.names):
        raise InputError(f"two roles share a column: {', '.join(columns.names)}.")
    return columns


@dataclass(frozen=True)
class FleetTerms(Request):
    """The request of an operator for the series of a fleet; ε protects any value in the clamp."""

    interval_s: int = 900  # Length of a reading [s]
    period: str = "day"  # Civil period, in the time zone of the ledger, that is charged

    def __post_init__(self) -> None:
        if self.clamp is None:
            raise InputError("the readings of a fleet need a clamp, such as 0,15000 watts.")
        for name in ("hide", "home", "every"):
            if getattr(self, name) is not None:
                raise InputError(f"a fleet releases the readings of many homes: leave out {name}.")
        if self.tables:
            raise InputError("a fleet releases series; use the sums of a fleet for other tables.")
        # What is left open is filled in, so that equal requests have equal terms.
        for name, filled in (
            ("protect", "range" if self.watts is None else "change"),
            ("span", SPANS[0]),
            ("mechanism", DEFAULT_KIND),
        ):
            if getattr(self, name) is None:
                object.__setattr__(self, name, filled)
        super().__post_init__()
        one_of("span", self.chosen_span(), SPANS)
        one_of("period", self.period, PERIODS)
        check_interval(self.interval_s)

    schema = "hushmeter-fleet-2"
    stream = "load"
    by = ()
    days = None
    charged_within = ""

    @property
    def promise(self) -> Promise:
        """The promise that every reading of the fleet is released with."""
        return _resolve(self)

    def describe(self) -> dict[str, Any]:
        """Return the promise as plain values, which the ledger and the manifest record."""
        return describe_promise(self.promise) | {"version": __version__, "period": self.period}

    def price(self, protects: DayChange, composition_delta: float) -> Price:
        """Return what the ledger charges for one period of a meter."""
        change = protects.on_meter(
            self.interval_s, clamp=self.clamp, period=self.period, on_whole_intervals=True
        )
        return period_price(self.promise.noise, change, composition_delta=composition_delta)


@lru_cache(maxsize=8)
def _resolve(terms: FleetTerms) -> Promise:
    return terms.resolve(Metered(terms.interval_s))


Terms = FleetTerms | SumTerms


def read_terms(schema: str, plain: Mapping[str, Any]) -> Terms:
    """Return the terms that a manifest of this schema asked for, also after a way through JSON."""
    facts: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()
    }
    return SumTerms.from_dict(facts) if schema == SumTerms.schema else FleetTerms(**facts)


def describe_charge(terms: Terms, protects: DayChange, composition_delta: float) -> dict[str, Any]:
    """Return what the ledger charges for one period of a meter, and for which change."""
    price = terms.price(protects, composition_delta)
    return {
        "epsilon": epsilon_text(price.micro),
        "micro_epsilon": price.micro,
        "femto_delta": price.femto,
        "unit": protects.sentence(terms.period) + terms.charged_within,
        "protects": protects.describe(),
        "composition_delta": composition_delta,
    }


@dataclass(frozen=True)
class TableError:
    """The standard error of every number of a table, from the noise and the grid."""

    table: str
    error: float  # In kWh, or in meters or days for counts
    unit: str
    share: float | None = None  # Share of the stated load, with what a cap cuts off
    lost: float = 0.0  # Share of the energy that a cap cuts off, by the reference

    @property
    def sentence(self) -> str:
        """The error in words."""
        cut = f" with the {100 * self.lost:.2g} % that the cap cuts off" if self.lost else ""
        share = "" if self.share is None else f", {100 * self.share:.3g} % of the stated load{cut}"
        size = f"{self.error:.3g} {self.unit}"
        return f"standard error of every number of {self.table}: {size}{share}"


def reading_error(terms: FleetTerms) -> float:
    """Compute the standard error of one released reading, √(σ² + g²/12) [W]."""
    return math.hypot(terms.promise.noise.std, terms.promise.noise.grid / math.sqrt(12))


def errors_of(terms: Terms, load_w: float | None = None) -> list[TableError]:
    """Return the errors of all tables, beside the mean load of a group, or of a meter [W].

    A number is the energy of one reading, of one bin, or of an hour of the day over all days of
    the period, of which there is at least one.
    """
    if isinstance(terms, FleetTerms):
        sizes, lost = {"readings": (reading_error(terms), terms.interval_s)}, 0.0
    else:
        seconds = {
            "sums": SECONDS_PER_DAY if terms.every == "day" else SECONDS_PER_HOUR,
            "shape": SECONDS_PER_HOUR * max(1, terms.day_count),
        }
        errors = {table: terms.promise.error(table) for table in terms.drawn}
        sizes = {table: (error, seconds.get(table, 0)) for table, error in errors.items()}
        load_w = terms.known_load_w if load_w is None else load_w
        lost = 0.0 if terms.reference is None else terms.reference.lost_share
    found = []
    for table, (error, length) in sizes.items():
        if not length:
            unit = "days" if table == CLIPPED else "meters"
            found.append(TableError(table, error, unit))
            continue
        joules = error * terms.interval_s
        share = None if load_w is None else math.hypot(joules / (load_w * length), lost)
        found.append(TableError(table, joules / JOULES_PER_KWH, "kWh", share, lost))
    return found


@dataclass(frozen=True)
class FleetJob:
    """A release: its terms, its folders, its identity and its secret."""

    terms: Terms  # What was asked for
    # Folders that every worker sees under the same name
    source_dir: str
    output_dir: str
    ledger: str = field(repr=False)  # URL of the ledger; it may contain a password
    release: str  # Identity of the release
    stream: str = FleetTerms.stream  # Which series of the meters is released
    # True to release periods again that were released before, with fresh noise and a new charge
    correction: bool = False
    columns: Columns = field(default_factory=Columns)  # Names of the input columns
    # Names of further columns that are read; a series publishes them unchanged, without noise
    keep: tuple[str, ...] = ()
    # What the input files do not state themselves
    form: InputFormat = field(default_factory=InputFormat)
    # Time zone of the days and months, the promise, and what the ledger charges, as plain facts;
    # `paid_in` finds them
    zone: str = "UTC"
    promise: dict[str, Any] = field(default_factory=dict, repr=False)
    price: dict[str, Any] = field(default_factory=dict)
    # The release key. Anyone who has it can remove the noise
    key: bytes = field(default=b"", repr=False)

    @property
    def charge(self) -> Charge:
        """Description of the release for the ledger; a correction is a stream under its caps."""
        corrected = f"{self.stream} corrected by {self.release}" if self.correction else self.stream
        return Charge(self.release, corrected, self.promise | {"charge": self.price})

    @property
    def unit_of_output(self) -> str:
        """Unit of released values: the stated one, or W; that of a row may follow from its size."""
        return self.form.unit or "W"

    @property
    def key_terms(self) -> dict[str, Any]:
        """Terms on which the keys of the noise depend, with what is stated about the input."""
        stated = {name: getattr(self.form, name) for name in ("unit", "tz", "decimal")}
        return self.promise | {"input": stated}

    @property
    def facts(self) -> dict[str, Any]:
        """Everything public that is known before the first file is read, as plain values."""
        return {
            "schema": self.terms.schema,
            "release": self.release,
            "stream": self.stream,
            "correction": self.correction,
            "asked": plain({n: one for n, one in asdict(self.terms).items() if one is not None}),
            "columns": asdict(self.columns),
            "kept_without_noise": [] if self.terms.by else list(self.keep),
            "promise": self.promise,
            "charge": self.price,
        }

    @property
    def mark(self) -> str:
        """The identity of the release and a digest of its facts, which every file carries."""
        return mark_of(self.facts)

    def file_key(self, source: str, file_sha256: bytes) -> bytes:
        """Derive the key of one file or table; `hushmeter.apps.fleet.series` has the formula."""
        text = json.dumps(self.key_terms, sort_keys=True, ensure_ascii=False, allow_nan=False)
        parts = (self.release, self.charge.stream, text, source, file_sha256)
        return derive_key(self.key, "file", *parts)

    def input_digest(self, file_sha256: bytes) -> str:
        """Return the digest of an input for the ledger; only holders of the key can compare it."""
        return derive_key(self.key, "input", file_sha256).hex()

    def paid_in(self, ledger: Ledger) -> FleetJob:
        """Return the job with its promise and the price that its ledger asks, or refuse it."""
        terms, protects = self.terms, ledger.protects
        if isinstance(terms, SumTerms):
            terms = replace(terms, zone=protects.zone, tz=terms.tz or protects.zone)
        price = describe_charge(terms, protects, ledger.composition_delta)
        found = {"promise": plain(terms.describe()), "price": plain(price)}
        return replace(self, terms=terms, zone=protects.zone, **found)

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the secret, and the versions that decide on the noise."""
        listed: dict[str, Any] = plain(asdict(replace(self, key=b"")))
        del listed["key"]
        return listed | {"schema": self.terms.schema, "made_by": _versions()}

    @classmethod
    def from_dict(cls, listed: Mapping[str, Any], key: bytes) -> FleetJob:
        """Return the job that `to_dict` described.

        Raise `DataError` if other versions of hushmeter or pyarrow began it, because their noise
        may differ.
        """
        begun, here = (
            ", ".join(map(" ".join, versions.items()))
            for versions in (listed["made_by"], _versions())
        )
        if begun != here:
            raise DataError(
                f"the release was begun with {begun} and this is {here}; finish it with the "
                "versions that began it, because others may draw other noise."
            )
        facts = {n: v for n, v in listed.items() if n not in ("schema", "made_by")}
        facts |= {
            "terms": read_terms(listed["schema"], listed["terms"]),
            "columns": Columns(**listed["columns"]),
            "keep": tuple(listed["keep"]),
            "form": InputFormat(**listed["form"]),
        }
        return cls(**facts, key=key)


def mark_of(facts: Mapping[str, Any]) -> str:
    """Return the identity and the digest of the facts of a release; see `FleetJob.mark`."""
    return f"{facts['release']} {hashlib.sha256(canonical(facts).encode()).hexdigest()}"


def derive_key(key: bytes, *parts: str | bytes) -> bytes:
    """Return the HMAC of parts with their lengths, so that no two lists give the same message."""
    message = b""
    for part in ("hushmeter fleet 1", *parts):
        raw = part.encode() if isinstance(part, str) else part
        message += len(raw).to_bytes(8, "big") + raw
    return hmac.new(key, message, hashlib.sha256).digest()


def plain(value: Any) -> Any:
    """Return a value as JSON reads it back: lists in place of tuples."""
    return json.loads(json_text(value))


def _versions() -> dict[str, str]:
    """Return the versions that decide on the noise of a row.

    hushmeter has the sampler, and pyarrow decides how a file is cut into records.
    """
    import pyarrow as pa

    return {"hushmeter": __version__, "pyarrow": pa.__version__, "format": OUTPUT_FORMAT}
