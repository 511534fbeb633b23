"""What a fleet release asks for: plain data that any scheduler can send to any worker."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hushmeter import __version__
from hushmeter.checks import one_of
from hushmeter.errors import DataError, InputError
from hushmeter.fleet.schema import PERIODS, Columns
from hushmeter.privacy.units import Unit, calibrate, resolve_unit
from hushmeter.trace import check_interval

if TYPE_CHECKING:
    from hushmeter.fleet.ledger import Charge
    from hushmeter.noise.mechanism import Mechanism

SPANS = ("reading", "day")
STREAM = "load"


@dataclass(frozen=True)
class FleetTerms:
    """The promise of a release, as its operator states it.

    Attributes
    ----------
    epsilon : str
        ε of the unit of protection, an exact decimal.
    clamp : (low, high)
        Bounds of a reading [W], known beforehand.
    mechanism : {"laplace", "staircase", "gaussian"}
    span : {"reading", "day"}
        The unit of protection: one reading, or one whole day.
    sensitivity : str, optional
        Protect a change of so many watts instead of any value within the clamp.
    grid : str
        Step of the released power [W].
    delta : float
        δ of the Gaussian.
    max_epsilon : float
        The largest ε accepted.
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
        """Plain facts, recorded in the ledger once per release and in the manifest."""
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
    """The noise that keeps the promise; refuses terms that no noise can keep."""
    from hushmeter.noise.parameters import clamp_bounds

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
    """A release: its terms, where it reads and writes, who it is, and its secret.

    Attributes
    ----------
    terms : FleetTerms
    source_dir, output_dir : str
        Folders that every worker sees under the same name.
    ledger : str
        URL; it may hold a password.
    release : str
        Identity of the release.
    stream : str
        Which series of the meters is released.
    correction : bool
        Releases periods again that were released before, with fresh noise; spends again.
    columns : Columns
    key : bytes
        The release key: whoever has it can take the noise away.
    """

    terms: FleetTerms
    source_dir: str
    output_dir: str
    ledger: str = field(repr=False)
    release: str
    stream: str = STREAM
    correction: bool = False
    columns: Columns = field(default_factory=Columns)
    key: bytes = field(default=b"", repr=False)

    @property
    def ledger_stream(self) -> str:
        """Stream in the ledger: a correction has one of its own, under the same caps."""
        return f"{self.stream} corrected by {self.release}" if self.correction else self.stream

    @property
    def charge(self) -> Charge:
        """What the ledger is told."""
        from hushmeter.fleet.ledger import Charge

        return Charge(self.release, self.ledger_stream, self.terms.describe())

    def to_dict(self) -> dict[str, Any]:
        """Everything but the secret, and who made it."""
        plain = asdict(self)
        del plain["key"]
        plain["terms"]["clamp"] = list(self.terms.clamp)
        return plain | {"made_by": _makers()}

    @classmethod
    def from_dict(cls, plain: dict[str, Any], key: bytes) -> FleetJob:
        """The job that `to_dict` wrote, unless another version did: its noise may differ."""
        begun, here = (", ".join(map(" ".join, m.items())) for m in (plain["made_by"], _makers()))
        if begun != here:
            raise DataError(
                f"the release was begun with {begun} and this is {here}; finish it with the "
                "former, as others may draw other noise."
            )
        terms = dict(plain["terms"])
        terms["clamp"] = tuple(terms["clamp"])
        rest = {k: v for k, v in plain.items() if k not in ("terms", "columns", "made_by")}
        return cls(FleetTerms(**terms), columns=Columns(**plain["columns"]), key=key, **rest)

    def with_key(self, key: bytes) -> FleetJob:
        """The same job with its secret."""
        return replace(self, key=key)


def _makers() -> dict[str, str]:
    """What decides on the noise of a row: the sampler, and how a file is cut into records."""
    import pyarrow as pa

    return {"hushmeter": __version__, "pyarrow": pa.__version__}
