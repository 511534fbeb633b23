"""What the API takes and gives, as pydantic models; the OpenAPI description is made of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hushmeter.noise.mechanism import MAX_EPSILON
from hushmeter.protect.cost import PRICE_PER_KWH

# Beyond these no home goes, and the arithmetic of the library would overflow.
MIN_WATTS, MAX_WATTS = 1e-2, 1e5
MIN_SECONDS, MAX_SECONDS = 1e-3, 31_536_000.0
MIN_EPSILON = 1e-6
MAX_SEED = 2**31 - 1

Name = Annotated[str, Field(min_length=1, max_length=80)]
Watts = Annotated[float, Field(ge=MIN_WATTS, le=MAX_WATTS)]
Seconds = Annotated[float, Field(ge=MIN_SECONDS, le=MAX_SECONDS)]
Bound = Annotated[float, Field(ge=-MAX_WATTS, le=MAX_WATTS)]
MechanismName = Literal["laplace", "staircase", "gaussian"]
Protect = Literal["appliance", "fluctuation", "range", "change"]
Span = Literal["reading", "run", "day"]
TraceId = Annotated[str, Field(min_length=1, max_length=64)]
Rows = list[tuple[int, float | None, float | None]]
Runs = list[tuple[int, int]]


class Strict(BaseModel):
    """A request: unknown fields are refused, so that a misspelt one is not ignored."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ErrorAnswer(BaseModel):
    """Every refusal."""

    error: str = Field(description="One sentence: what, where, what to do.")


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
    """Noise and its unit of protection."""

    home: HomeModel | None = None
    mechanism: MechanismName = "laplace"
    protect: Protect = "appliance"
    span: Span = "reading"
    appliance: Name | None = Field(None, description="Protect this appliance only")
    watts: Watts | None = Field(None, description="The change to protect, for protect 'change'")
    clamp: tuple[Bound, Bound] | None = Field(
        None, description="Bounds of a reading [W], for protect 'range'"
    )


class ReleaseRequest(UnitRequest):
    """A real release: noise from the operating system, no seed."""

    trace: TraceId
    epsilon: Annotated[float, Field(ge=MIN_EPSILON, le=MAX_EPSILON)]
    every: Annotated[str, Field(max_length=16)] | None = Field(
        None, description="Release means over longer intervals, such as 30min"
    )
    format: Literal["csv", "parquet"] = "csv"


class ViewRequest(UnitRequest):
    """A simulated release, attacked and scored."""

    trace: TraceId
    epsilon: Annotated[float, Field(ge=MIN_EPSILON, le=MAX_EPSILON)]
    every: Annotated[str, Field(max_length=16)] | None = None
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


class Named(BaseModel):
    """Something that can be chosen."""

    name: str
    label: str


class AttackerAbout(Named):
    """An attacker that can be chosen."""

    summary: str
    default: bool


class UnitAbout(BaseModel):
    """A unit of protection that can be chosen."""

    protect: str
    span: str
    label: str


class Limits(BaseModel):
    """What the server accepts."""

    upload_bytes: int
    unpacked_bytes: int
    readings: int
    view_readings: int
    appliances: int
    max_epsilon: float
    request_s: float


class About(BaseModel):
    """What this server can do."""

    version: str
    attackers: list[AttackerAbout]
    mechanisms: list[Named]
    units: list[UnitAbout]
    examples: list[Named]
    texts_language: str
    limits: Limits


class Regime(BaseModel):
    """What can be inferred at a resolution."""

    name: str
    sentence: str


class SessionModel(BaseModel):
    """A trace that the server holds, and what was found in it."""

    id: str
    name: str
    format: str
    readings: int
    interval_s: float
    start: str
    end: str
    unit: str
    gaps: int
    duplicates: int
    regime: Regime
    sentences: list[str]
    has_truth: bool
    home: HomeModel | None


class Strip(BaseModel):
    """When one appliance was on, and when the attacker says so [ms since 1970, UTC]."""

    appliance: str
    truth: Runs | None
    guess: Runs
    wrong: Runs | None


class Visibility(BaseModel):
    """What was seen of one appliance beyond a guess without data."""

    appliance: str
    accuracy: float
    floor: float
    visibility: float | None
    low: float | None
    high: float | None
    odds: tuple[float, float]


class ScoreModel(BaseModel):
    """The attack as a whole."""

    alpha: float
    alpha_floor: float
    f1: float | None
    balanced_accuracy: float | None


class Amount(BaseModel):
    """A sum as metered and as released, and the standard deviation of its error."""

    true: float
    released: float
    error_sd: float


class Bill(Amount):
    """The same in money."""

    price_per_kwh: float
    currency: str


class Peak(BaseModel):
    """The largest hourly mean [W]."""

    true: float
    released: float


class CostModel(BaseModel):
    """What the noise costs those who use the readings."""

    hourly: list[tuple[int, float, float]]
    kwh: Amount
    bill: Bill
    peak: Peak
    expected: dict[str, float]
    sentences: list[str]


class View(BaseModel):
    """What follows the slider."""

    unit: str
    epsilon: float
    delta: float
    scale_w: float
    start: int
    length: int
    interval_s: float
    metered: Rows
    released: Rows
    strips: list[Strip] | None
    guesses_only: bool
    attacker: str
    trained_on: str | None
    visibility: list[Visibility] | None
    score: ScoreModel | None
    sentences: list[str]
    cost: CostModel
    seconds: float
    seed: int
    simulation: Literal[True]


class BoundsModel(BaseModel):
    """Accuracy of one reading against ε; null where a curve does not hold."""

    unit: str
    epsilon: list[float]
    ln_inverse: list[float]
    scale_w: list[float | None]
    exact: list[float | None] | None
    lower: list[float | None] | None
    upper: list[float | None] | None
    vacuous: list[bool] | None = Field(description="Neither bound says anything")
    lower_vacuous: list[bool] | None
    upper_vacuous: list[bool] | None
    universal: list[float | None]
    floor: float
    max_switches: int
    sentences: list[str]


class AdviceModel(BaseModel):
    """The answer to a goal."""

    goal: dict[str, Any]
    feasible: bool
    options: list[dict[str, Any]]
    sentences: list[str]


class Download(BaseModel):
    """Protected readings and their receipt."""

    file_name: str
    media_type: str
    data: str = Field(description="The file, base64")
    receipt_name: str
    receipt: dict[str, Any]
    sentences: list[str]
