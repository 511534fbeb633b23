"""What the API takes, as pydantic models; the OpenAPI description is made of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from hushmeter.noise.mechanism import MAX_EPSILON
from hushmeter.releases.cost import PRICE_PER_KWH

# Beyond these no home goes, and the arithmetic of the library would overflow.
MIN_WATTS, MAX_WATTS = 1e-2, 1e5
MIN_SECONDS, MAX_SECONDS = 1e-3, 31_536_000.0
MIN_EPSILON = 1e-6
MAX_SEED = 2**31 - 1

Name = Annotated[str, Field(min_length=1, max_length=80)]
Watts = Annotated[float, Field(ge=MIN_WATTS, le=MAX_WATTS)]
Seconds = Annotated[float, Field(ge=MIN_SECONDS, le=MAX_SECONDS)]
Bound = Annotated[float, Field(ge=-MAX_WATTS, le=MAX_WATTS)]
Epsilon = Annotated[float, Field(ge=MIN_EPSILON, le=MAX_EPSILON)]
MechanismName = Literal["laplace", "staircase", "gaussian"]
Protect = Literal["appliance", "fluctuation", "range", "change"]
Span = Literal["reading", "run", "day"]
TraceId = Annotated[str, Field(min_length=1, max_length=64)]


class Strict(BaseModel):
    """A request: unknown fields are refused, so that a misspelt one is not ignored."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ApplianceModel(Strict):
    """One appliance of a home."""

    name: Name
    watts: Watts | None = Field(None, description="Mean power while on; the mean of levels if null")
    levels: list[Watts] = Field(default_factory=list, max_length=12)
    run_s: Seconds | None = Field(None, description="Usual length of a run [s]")
    runs_per_day: Annotated[float, Field(ge=1e-4, le=86_400)] | None = None


class HomeModel(Strict):
    """What the attacker knows of a household."""

    name: str = Field("home", max_length=80)
    tolerance: Watts = 20.0
    base_load: Annotated[float, Field(ge=0, le=MAX_WATTS)] = 0.0
    appliances: list[ApplianceModel] = Field(min_length=1, max_length=40)


class UnitRequest(Strict):
    """Noise, its unit of protection, and how often a reading is released."""

    home: HomeModel | None = None
    mechanism: MechanismName = "laplace"
    protect: Protect = "appliance"
    span: Span = "reading"
    every: Annotated[str, Field(max_length=16)] | None = Field(
        None, description="Release means over longer intervals, such as 30min"
    )
    appliance: Name | None = Field(None, description="Protect this appliance only")
    watts: Watts | None = Field(None, description="The change to protect, for protect 'change'")
    clamp: tuple[Bound, Bound] | None = Field(
        None, description="Bounds of a reading [W], for protect 'range'"
    )


class ReleaseRequest(UnitRequest):
    """A real release: noise from the operating system, no seed."""

    trace: TraceId
    epsilon: Epsilon
    format: Literal["csv", "parquet"] = "csv"


class ViewRequest(UnitRequest):
    """A simulated release, attacked and scored."""

    trace: TraceId
    epsilon: Epsilon
    attacker: Annotated[str, Field(max_length=40)] = "bayes"
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] = 0
    start: Annotated[int, Field(ge=0, le=2**31)] = Field(0, description="First reading shown")
    length: Annotated[int, Field(ge=1, le=2**31)] | None = Field(
        None, description="Number of readings shown; as many as allowed if null"
    )
    price_per_kwh: Annotated[float, Field(ge=0, le=1000)] = PRICE_PER_KWH
    currency: Annotated[str, Field(max_length=8)] = ""


class BoundsRequest(UnitRequest):
    """Curves of accuracy against ε."""

    home: HomeModel
    interval_s: Seconds = 6.0
    max_switches: Annotated[int, Field(ge=1, le=4)] = 1
    points: Annotated[int, Field(ge=2, le=200)] = 81


class AdviseRequest(Strict):
    """A goal: an appliance that nobody may be right about too often."""

    home: HomeModel
    appliance: Name
    max_odds: Annotated[float, Field(ge=0.01, le=0.999999)] = 0.6
    span: Span | None = None
    trace: TraceId | None = Field(None, description="Its interval is taken instead of interval_s")
    interval_s: Seconds = 6.0
    mechanisms: list[MechanismName] = Field(
        ["laplace", "staircase", "gaussian"], min_length=1, max_length=3
    )
    max_hourly_error: Watts | None = None
    price_per_kwh: Annotated[float, Field(ge=0, le=1000)] = PRICE_PER_KWH


class ExampleRequest(Strict):
    """An example by its name."""

    name: Annotated[str, Field(max_length=40)] = "evening"


class TraceRequest(Strict):
    """A trace held by the server."""

    trace: TraceId


class HomeRequest(Strict):
    """A home to write as TOML."""

    home: HomeModel
