"""What a fleet release asks for, as plain data that any scheduler can send to any worker."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from hushmeter import __version__
from hushmeter.checks import one_of
from hushmeter.clock import check_zone
from hushmeter.errors import DataError, InputError
from hushmeter.ledger import Charge
from hushmeter.ledger.charges import Price, epsilon_text, period_price
from hushmeter.ledger.day_change import PERIODS, DayChange
from hushmeter.noise.parameters import clamp_bounds
from hushmeter.privacy.units import Unit, calibrate, resolve_unit
from hushmeter.trace import UNITS as UNITS_OF_VALUES
from hushmeter.trace import check_interval

if TYPE_CHECKING:
    from hushmeter.ledger import Ledger
    from hushmeter.noise.mechanism import Mechanism

SPANS = ("reading", "day")
STREAM = "load"
OUTPUT_FORMAT = "2"
"""Version of the order of rows and of the columns of the output; a resumed job must have it."""


@dataclass(frozen=True)
class Columns:
    """Names of the mandatory columns of an input file.

    Attributes
    ----------
    meter : str
        Id of the meter, text or whole numbers.
    time : str
        Start of the reading, a timestamp with a zone.
    value : str
        The reading.
    unit : str
        Unit of the reading: W, kW, Wh or kWh.
    interval : str
        Length of the reading [s].
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
    """What the input files do not state themselves.

    Attributes
    ----------
    unit : str, optional
        Unit of the values of files without a unit column, and of all released values: W, kW, Wh
        or kWh.
    tz : str, optional
        Time zone of times without a zone, such as Europe/Berlin.
    interval_s : int, optional
        Length of a reading of files without that column [s].
    decimal : {"point", "comma"}, optional
        Decimal mark of values that are text; a point by default.
    """

    unit: str | None = None
    tz: str | None = None
    interval_s: int | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        if self.decimal is not None:
            one_of("decimal", self.decimal, ("point", "comma"))
        if self.unit is not None:
            one_of("unit", self.unit, UNITS_OF_VALUES)
        if self.tz is not None:
            check_zone(self.tz)


def parse_columns(text: str | None) -> Columns:
    """Read other names of the columns.

    Parameters
    ----------
    text : str or None
        Pairs such as `meter=mpan,time=read_at`; None keeps all default names.

    Returns
    -------
    Columns

    Raises
    ------
    InputError
        If a pair is malformed, a role is unknown, or two roles share a column.
    """
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


@dataclass(frozen=True)
class FleetTerms:
    """The promise of a release, as its operator states it.

    Attributes
    ----------
    epsilon : str
        ε of the unit of protection, an exact decimal number.
    clamp : (low, high)
        Bounds of a reading [W], known beforehand.
    mechanism : {"laplace", "staircase", "gaussian"}
        Distribution of the noise.
    span : {"reading", "day"}
        The unit of protection: one reading, or one whole day.
    sensitivity : str, optional
        Protect a change of this many watts [W] instead of any value within the clamp.
    grid : str
        Step of the released power [W].
    delta : float
        δ of Gaussian noise.
    max_epsilon : float
        Largest ε that is accepted.
    interval_s : int
        Length of a reading [s].
    period : {"day", "month"}
        UTC calendar period that the ledger charges.
    """

    epsilon: str
    clamp: tuple[float, float]
    mechanism: str = "laplace"
    span: str = "reading"
    sensitivity: str | None = None
    grid: str = "1"
    delta: float = 1e-6
    max_epsilon: float = 20.0
    interval_s: int = 900
    period: str = "day"

    def __post_init__(self) -> None:
        one_of("span", self.span, SPANS)
        one_of("period", self.period, PERIODS)
        check_interval(self.interval_s)

    @property
    def unit(self) -> Unit:
        """The unit of protection."""
        try:
            watts = None if self.sensitivity is None else float(self.sensitivity)
        except ValueError:
            raise InputError(
                f"sensitivity must be a number of watts, got {self.sensitivity!r}."
            ) from None
        return resolve_unit(
            "range" if watts is None else "change",
            self.span,
            interval_s=float(self.interval_s),
            clamp=self.clamp,
            watts=watts,
        )

    def describe(self) -> dict[str, Any]:
        """Return plain facts, which the ledger records once per release and the manifest repeats.

        The keys of the noise depend on them: any change gives other noise.
        """
        unit, noise = self.unit, build_mechanism(self)
        return {
            "version": __version__,
            "epsilon": self.epsilon,
            "delta": noise.delta,
            "mechanism": noise.describe(),
            "unit": {
                "protect": unit.protect,
                "span": unit.span,
                "sentence": unit.sentence,
                "interval_s": self.interval_s,
                "l1": unit.l1,
                "l2": unit.l2,
                "touches": unit.touches,
            },
            "period": self.period,
        }


@lru_cache(maxsize=8)
def build_mechanism(terms: FleetTerms) -> Mechanism:
    """Build the noise that keeps a promise.

    Parameters
    ----------
    terms : FleetTerms
        The promise.

    Returns
    -------
    Mechanism

    Raises
    ------
    InputError
        If no noise can keep the promise.
    """
    return calibrate(
        terms.mechanism,
        terms.epsilon,
        terms.unit,
        delta=terms.delta,
        grid=terms.grid,
        clamp=clamp_bounds(terms.clamp),
        max_epsilon=terms.max_epsilon,
    )


@dataclass(frozen=True)
class FleetJob:
    """A release: its terms, its folders, its identity and its secret.

    Attributes
    ----------
    terms : FleetTerms
        The promise.
    source_dir, output_dir : str
        Folders that every worker sees under the same name.
    ledger : str
        URL of the ledger; it may contain a password.
    release : str
        Identity of the release.
    stream : str
        Which series of the meters is released.
    correction : bool
        True to release periods again that were released before, with fresh noise and a new
        charge.
    columns : Columns
        Names of the input columns.
    keep : tuple of str
        Names of further columns that are published unchanged, without noise.
    form : InputFormat
        What the input files do not state themselves.
    protects : DayChange or None
        The change of which the ledger charges the cost; None before the ledger is opened.
    ledger_delta : float
        δ' at which the ledger composes the losses of a period; 0 if it adds them up.
    key : bytes
        The release key. Anyone who has it can remove the noise.
    """

    terms: FleetTerms
    source_dir: str
    output_dir: str
    ledger: str = field(repr=False)
    release: str
    stream: str = STREAM
    correction: bool = False
    columns: Columns = field(default_factory=Columns)
    keep: tuple[str, ...] = ()
    form: InputFormat = field(default_factory=InputFormat)
    protects: DayChange | None = None
    ledger_delta: float = 0.0
    key: bytes = field(default=b"", repr=False)

    @property
    def ledger_stream(self) -> str:
        """Stream in the ledger; a correction has its own stream under the same caps."""
        return f"{self.stream} corrected by {self.release}" if self.correction else self.stream

    @property
    def unit_of_output(self) -> str:
        """Unit of released values: the stated one, or W; that of a row may follow from its size."""
        return self.form.unit or "W"

    @property
    def days(self) -> tuple[str, str] | None:
        """First and last day that may be released; None for all days."""
        return None

    @property
    def charge(self) -> Charge:
        """Description of the release for the ledger."""
        terms = self.terms.describe() | {"charge": self.describe_price()}
        return Charge(self.release, self.ledger_stream, terms)

    @property
    def key_terms(self) -> dict[str, Any]:
        """Terms on which the keys of the noise depend, with what is stated about the input."""
        stated = {name: getattr(self.form, name) for name in ("unit", "tz", "decimal")}
        terms = self.terms.describe()
        return terms | {"input": stated} if any(stated.values()) else terms

    @property
    def price(self) -> Price:
        """What the ledger charges for one (meter, period)."""
        assert self.protects is not None
        return _price(self.terms, self.protects, self.ledger_delta)

    def describe_price(self) -> dict[str, Any]:
        """Return the price, and the change that it is for, as plain facts."""
        assert self.protects is not None
        return {
            "epsilon": epsilon_text(self.price.micro),
            "micro_epsilon": self.price.micro,
            "femto_delta": self.price.femto,
            "unit": self.protects.sentence(self.terms.period),
            "protects": self.protects.describe(),
            "composition_delta": self.ledger_delta,
        }

    def paid_in(self, ledger: Ledger) -> Self:
        """Return the same job with what its ledger declares; refuse a release it cannot price."""
        job = replace(self, protects=ledger.protects, ledger_delta=ledger.composition_delta)
        job.price  # noqa: B018 (a release that the ledger cannot price raises here)
        return job

    def to_dict(self) -> dict[str, Any]:
        """Return everything except the secret, and the versions that decide on the noise."""
        plain = asdict(self)
        del plain["key"]
        # Lists instead of tuples, as JSON reads them back.
        listed: dict[str, Any] = json.loads(json.dumps(plain))
        return listed | {"made_by": _versions()}

    @classmethod
    def from_dict(cls, plain: dict[str, Any], key: bytes) -> FleetJob:
        """Return the job that `to_dict` described.

        Raises
        ------
        DataError
            If other versions of hushmeter or pyarrow began it, because their noise may differ.
        """
        begun, here = (
            ", ".join(map(" ".join, versions.items()))
            for versions in (plain["made_by"], _versions())
        )
        if begun != here:
            raise DataError(
                f"the release was begun with {begun} and this is {here}; finish it with the "
                "versions that began it, because others may draw other noise."
            )
        terms = dict(plain["terms"])
        terms["clamp"] = tuple(terms["clamp"])
        parsed = ("terms", "columns", "keep", "form", "protects", "made_by")
        rest = {name: value for name, value in plain.items() if name not in parsed}
        return cls(
            FleetTerms(**terms),
            columns=Columns(**plain["columns"]),
            keep=tuple(plain["keep"]),
            form=InputFormat(**plain["form"]),
            protects=DayChange.from_dict(plain["protects"]),
            key=key,
            **rest,
        )

    def with_key(self, key: bytes) -> FleetJob:
        """Return the same job with a secret."""
        return replace(self, key=key)


@lru_cache(maxsize=8)
def _price(terms: FleetTerms, protects: DayChange, ledger_delta: float) -> Price:
    """Compute what one (meter, period) costs."""
    change = protects.on_meter(
        terms.interval_s,
        clamp=clamp_bounds(terms.clamp),
        period=terms.period,
        on_whole_intervals=True,
    )
    return period_price(build_mechanism(terms), change, composition_delta=ledger_delta)


def _versions() -> dict[str, str]:
    """Return the versions that decide on the noise of a row.

    hushmeter has the sampler, and pyarrow decides how a file is cut into records.
    """
    import pyarrow as pa

    return {"hushmeter": __version__, "pyarrow": pa.__version__, "format": OUTPUT_FORMAT}
