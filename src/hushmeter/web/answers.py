"""What the API gives, as pydantic models; the OpenAPI description is made of them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from hushmeter.web.requests import HomeModel

Rows = list[tuple[int, float | None, float | None]]
Runs = list[tuple[int, int]]


class ErrorAnswer(BaseModel):
    """Every refusal."""

    error: str = Field(description="One sentence: what, where, what to do.")


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
    resolutions_s: list[float] = Field(description="Released intervals to choose from [s]")
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
    kept: int = Field(description="Readings that a view counts: repeated ones only once")
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
    interval_s: float = Field(description="Of a released reading [s]")
    reveals: str = Field(description="What readings of this interval give away")
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
