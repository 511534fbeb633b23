"""The JSON of the API as pydantic models: requests first, then answers, then what they mean.

FastAPI checks every request and writes the OpenAPI description from these models.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hushmeter.appliance import NUMBERS, Appliance
from hushmeter.home import Home, LearntFrom
from hushmeter.noise import MECHANISMS
from hushmeter.noise.mechanism import MAX_EPSILON
from hushmeter.privacy.units import PROTECT, SPANS
from hushmeter.releases.purposes import PRICE_PER_KWH, PURPOSES, parse_wish
from hushmeter.releases.request import Request

# No home lies outside these limits, and the library's arithmetic is safe inside them.
MIN_WATTS, MAX_WATTS = 1e-2, 1e5
MIN_SECONDS, MAX_SECONDS = 1e-3, 31_536_000.0
MIN_EPSILON = 1e-6
MAX_SEED = 2**31 - 1

Name = Annotated[str, Field(min_length=1, max_length=80)]
Watts = Annotated[float, Field(ge=MIN_WATTS, le=MAX_WATTS)]
Seconds = Annotated[float, Field(ge=MIN_SECONDS, le=MAX_SECONDS)]
Bound = Annotated[float, Field(ge=-MAX_WATTS, le=MAX_WATTS)]
Epsilon = Annotated[float, Field(ge=MIN_EPSILON, le=MAX_EPSILON)]
Price = Annotated[float, Field(ge=0, le=1000)]
MechanismName = Annotated[str, Field(json_schema_extra={"enum": [*MECHANISMS]})]
Protect = Annotated[str, Field(json_schema_extra={"enum": [*PROTECT]})]
Span = Annotated[str, Field(json_schema_extra={"enum": [*SPANS]})]
Purpose = Annotated[str, Field(json_schema_extra={"enum": [*PURPOSES]})]
Odds = Annotated[float, Field(ge=0.01, le=0.999)]
Zone = Annotated[str, Field(max_length=60)]
TraceId = Annotated[str, Field(min_length=1, max_length=64)]

Marks = tuple[Annotated[str, Field(max_length=20)], ...]
Rows = list[tuple[int, float | None, float | None]]
Runs = list[tuple[int, int]]


OWN = [field.name for field in fields(Appliance)]
"""Fields of an appliance."""
SHARED = {field.name for field in fields(Request)} - {"hide", "home"}
"""Fields of `Request` that a request of the page states in the same words."""


class Strict(BaseModel):
    """A request. Unknown fields are refused, so that a misspelt field is not ignored."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class ApplianceModel(Strict):
    """One appliance of a home: the fields of `hushmeter.Appliance`, and what a release hides."""

    name: Name
    power: Watts | None = Field(None, alias="watts")
    """Mean power while the appliance is on [W]; the mean of levels if null."""
    levels: tuple[Watts, ...] = Field((), max_length=12)
    """Powers that the appliance draws [W]."""
    run_s: Seconds | None = None
    """Usual length of a run [s]."""
    runs_per_day: Annotated[float, Field(ge=1e-4, le=86_400)] | None = None
    high: Watts | None = None
    """Upper power while on [W], which is protected."""
    max_power: Watts | None = None
    """Largest power ever measured [W]."""
    run_high_s: Seconds | None = None
    """Upper length of a run [s]."""
    energy_wh: Annotated[float, Field(ge=1e-6, le=1e7)] | None = None
    """Largest energy of a run [Wh]."""
    use_s_per_day: Annotated[float, Field(ge=MIN_SECONDS, le=86_400)] | None = None
    """Largest time of use in a day [s]."""
    source: Literal["typed", "catalogue", "learnt"] = "typed"
    """Where the numbers come from; learnt ones are rounded up to public steps. The server decides
    it: in a request only the claim that numbers were learnt counts, and only if the server does not
    hold the home."""
    typed: Marks = Field((), max_length=len(NUMBERS))
    """Numbers with another source than `source`; computed, ignored in a request."""
    protected_w: Watts | None = None
    """Power that a release hides [W]; computed, and ignored in a request."""
    protected_run_s: Seconds | None = None
    """Length of a run that a release hides [s]; computed, ignored in a request."""


class HomeModel(Strict):
    """What the attacker knows about a household."""

    name: str = Field("home", max_length=80)
    tolerance: Watts = 20.0
    """How far a step of the meter may be from an appliance's power [W]."""
    base_load: Annotated[float, Field(ge=0, le=MAX_WATTS)] = 0.0
    learnt_from: LearntFrom | None = None
    """Counts in a request only if the server does not hold the home."""
    typed: Marks = Field((), max_length=1)
    """“tolerance” if somebody entered it; computed, ignored in a request."""
    id: TraceId | None = None
    """Identifier under which the server holds the home; send it back, so that numbers that somebody
    entered are not taken for learnt ones."""
    appliances: list[ApplianceModel] = Field(min_length=1, max_length=40)


class WithHome(Strict):
    """A request about a home and about readings from which it may be learnt."""

    home: HomeModel | None = None
    trace: TraceId | None = None


class PromiseRequest(WithHome):
    """What a person asks of a release: the fields of `hushmeter.Request` that the page offers.

    With `hide` alone, the noise is found for the odds. With `epsilon` and `hide`, any use as large
    as the largest run of the named appliances is protected. With neither, no noise is added.
    """

    hide: list[Name] = Field(default_factory=list, max_length=40)
    odds: Odds | None = None
    purpose: Purpose | None = None
    protect: Protect | None = None
    span: Span | None = None
    epsilon: Epsilon | None = None
    mechanism: MechanismName | None = None
    every: Annotated[str, Field(max_length=16)] | None = None
    appliance: Name | None = None
    watts: Watts | None = None
    clamp: tuple[Bound, Bound] | None = None
    tz: Zone | None = None
    """Time zone; that of the readings if null."""
    calendar: bool = False
    """Release hours, days, typical day and months, where the wish and the readings allow it."""

    @property
    def adds_noise(self) -> bool:
        """True if anything is to be hidden."""
        return bool(self.hide) or self.epsilon is not None


class PlanRequest(PromiseRequest):
    """What nobody should be able to tell, how well, and what the data is for."""

    trace: TraceId


class ReleaseRequest(PlanRequest):
    """A real release, with noise from the operating system and without a seed."""

    format: Literal["zip", "csv", "parquet"] = "csv"
    accept_learnt: bool = False
    """Accept numbers of the home that were learnt from the released readings."""


class CalendarRequest(PlanRequest):
    """A simulated release of hours, days, typical day and months of all readings."""

    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] = 0


class LeftRequest(CalendarRequest):
    """What a release leaves of the statements about a home."""

    releases: Annotated[int, Field(ge=1, le=100)] = 50
    """Number of simulated releases."""


class ViewRequest(CalendarRequest):
    """A simulated release of a stretch of the readings."""

    start: Annotated[int, Field(ge=0, le=2**31)] = 0
    """Position of the first reading shown."""
    length: Annotated[int, Field(ge=1, le=2**31)] | None = None
    """Number of readings shown; as many as the server allows if null."""


class AttackRequest(ViewRequest):
    """An attack on the same release."""

    attacker: Annotated[str, Field(max_length=40)] = "strongest"


class MeterRequest(PromiseRequest):
    """A question about readings that the server holds, or about any readings of a length."""

    home: HomeModel
    interval_s: Seconds = 6.0
    """Used if trace is null."""


class BoundsRequest(MeterRequest):
    """Curves of an attacker's accuracy against ε."""

    max_switches: Annotated[int, Field(ge=1, le=4)] = 1
    points: Annotated[int, Field(ge=2, le=200)] = 81


class AdviseRequest(MeterRequest):
    """A wish, and what it may cost."""

    max_hourly_error: Watts | None = None
    price_per_kwh: Price = PRICE_PER_KWH


class FindingsRequest(Strict):
    """A trace that the server holds, and the time zone of the home."""

    trace: TraceId
    tz: Zone = "UTC"


class ExampleRequest(Strict):
    """An example by its name."""

    name: Annotated[str, Field(max_length=40)] = "evening"


class ApplianceRequest(Strict):
    """An appliance in words: its name and the numbers that somebody knows."""

    words: Name


class TraceRequest(Strict):
    """A trace that the server holds."""

    trace: TraceId


class HomeRequest(WithHome):
    """A home to write as TOML."""

    home: HomeModel


class Answer(BaseModel):
    """An answer of the server."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class ErrorAnswer(Answer):
    """The answer to every request that is refused."""

    error: str
    """One sentence: what is wrong, where, and what to do."""


class AttackerAbout(Answer):
    """An attacker that can be chosen."""

    name: str
    summary: str
    default: bool


class About(Answer):
    """What can be chosen on this server."""

    version: str
    attackers: list[AttackerAbout]
    mechanisms: list[str]
    units: list[tuple[str, str]]
    """What is protected, and over how long."""
    examples: dict[str, str]
    """Names and descriptions."""
    resolutions_s: list[float]
    """Released intervals to choose from [s]."""
    catalogue: list[ApplianceModel]
    """Typical appliances, with upper values."""
    sizes: dict[str, tuple[float, float]]
    """Appliances whose own power somebody must state, with the usual limits of it [W]."""
    limits: dict[str, float]
    """The largest requests that are accepted."""


class SessionModel(Answer):
    """A trace that the server holds, and what was found in it."""

    id: str
    name: str
    format: str
    readings: int
    kept: int
    """Readings without repeated ones; a view counts these."""
    interval_s: float
    start: str
    end: str
    unit: str
    gaps: int
    duplicates: int
    regime: dict[str, str]
    """What such readings reveal: name and sentence."""
    sentences: list[str]
    has_truth: bool
    zone: str | None
    """Time zone of the home, where the file or a person names it."""
    home: HomeModel | None


class Strip(Answer):
    """When one appliance was on, and when the attacker says so [ms since 1970, UTC]."""

    appliance: str
    truth: Runs
    guess: Runs
    wrong: Runs


class Visibility(Answer):
    """How much better the attacker is about one appliance than a guess without data."""

    appliance: str
    accuracy: float
    floor: float
    visibility: float | None
    low: float | None
    high: float | None
    odds: tuple[float, float]
    """Correct moments out of 100: of the attacker, and of a guess without data."""


class Amount(Answer):
    """A number as metered and as released, and its standard error where it is known."""

    true: float
    released: float
    error: float | None = None


class CostModel(Answer):
    """What the noise does to the readings shown."""

    hourly: list[tuple[int, float, float]]
    """Start of the hour [ms since 1970, UTC], mean as metered and as released [W]."""
    kwh: Amount
    peak: Amount
    """The largest hourly mean [W]."""


class Verdict(Answer):
    """The standard error of a release beside the household's own use."""

    level: Literal["small", "visible", "large", "exceeds"]
    purpose: Purpose
    """What the error is about."""
    error: float
    """Standard error of an hour or an hour of the typical day [W], of a day, a month of 30 days or
    a register value [kWh]."""
    own: float
    """Mean use in the same unit, over all readings."""
    sentences: list[str]
    """The comparison, the verdict, and what would help."""


class PromiseModel(Answer):
    """A promise: its entries in a receipt, and the same in words."""

    receipt: dict[str, Any]
    sentences: list[str]


class RemainingModel(Answer):
    """One statement about a home, before and after a release."""

    kind: str
    before: str
    after: str
    still_there: float
    by_chance: float
    verdict: Literal["gone", "uncertain", "still there"]
    odds: tuple[float, float, float] | None
    """How often a direct test is right, with its bounds."""


class LeftModel(Answer):
    """What a release leaves of the statements about a home; for the household alone."""

    statements: list[RemainingModel]
    releases: int


class FindingModel(Answer):
    """One statement about a home that its readings show."""

    kind: str
    sentence: str
    certainty: str
    marks: Runs
    """What supports it [ms since 1970, UTC]."""
    places: list[int]
    """Position of the first reading of each mark."""
    appliances: list[str]
    """Entries of the catalogue that it may concern."""


class FindingsModel(Answer):
    """What the readings of one meter show."""

    zone: str
    findings: list[FindingModel]
    notes: list[str]
    withheld: list[str]


class View(Answer):
    """The readings and, with noise, the promise of a release, an example of it, and its cost."""

    promise: PromiseModel | None
    """Null for readings without noise."""
    start: int
    length: int
    interval_s: float
    """Length of a released reading [s]."""
    reveals: str
    """What readings of this length reveal."""
    metered: Rows
    released: Rows | None
    cost: CostModel | None
    verdict: Verdict | None
    parameters: list[dict[str, Any]]
    """The numbers that calibrate the noise."""
    needs_consent: bool
    """A number was learnt from these readings."""
    seconds: float
    seed: int
    simulation: Literal[True]


class AttackModel(Answer):
    """An attack on a simulated release; everything is null if nobody knows what was really on."""

    attacker: str
    name: str | None = None
    """The attacker that answered; 'no data' for a guess."""
    chosen: str | None = None
    """Which attacker was the strongest, and why."""
    trained_on: str | None = None
    strips: list[Strip] | None = None
    visibility: list[Visibility] | None = None
    score: dict[str, float | None] | None = None
    sentences: list[str]


class RestoredModel(Answer):
    """Released readings that a recipient restored from the release and its receipt alone."""

    rows: Rows
    error_w: float | None
    """Mean standard error that the restoring states [W]."""


class Estimated(Answer):
    """One value of a calendar release with its standard error, beside the metered value."""

    label: str
    value: float
    error: float
    metered: float


class CalendarModel(Answer):
    """What a calendar release shows of a typical day and of the months."""

    profile: list[Estimated]
    """Mean power of every hour of the day [W]; empty if the release does not show it."""
    months: list[Estimated]
    """Energy of every month [kWh]."""
    days: int
    zone: str


class BoundsModel(Answer):
    """Accuracy at one reading against ε; null where a curve does not hold."""

    unit: str
    epsilon: list[float]
    ln_inverse: list[float]
    scale_w: list[float | None]
    exact: list[float | None] | None
    lower: list[float | None] | None
    upper: list[float | None] | None
    lower_vacuous: list[bool] | None
    upper_vacuous: list[bool] | None
    universal: list[float | None]
    floor: float


class AdviceModel(Answer):
    """The releases that meet a goal, cheapest first."""

    goal: dict[str, Any]
    feasible: bool
    options: list[dict[str, Any]]
    sentences: list[str]
    notes: list[str]


class Download(Answer):
    """Protected readings with the public and the private part of their receipt."""

    file_name: str
    media_type: str
    data: str
    """The file, base64."""
    receipt_name: str
    receipt: dict[str, Any]
    """The public part, for the recipient."""
    private_name: str
    private: dict[str, Any]
    """The private part, for the household only."""
    sentences: list[str]


def to_home(model: HomeModel) -> Home:
    """Return the home that a request describes; raise `InputError` if it is not valid."""
    appliances = [Appliance(**one.model_dump(include=set(OWN))) for one in model.appliances]
    learnt, typed = model.learnt_from, model.typed
    return Home(appliances, model.tolerance, model.base_load, model.name, learnt, typed)


def to_model(home: Home, key: str | None = None) -> HomeModel:
    """Return a home as JSON, with its identifier; the limits of a request are not applied."""
    own = [field.name for field in fields(Home) if field.name != "appliances"]
    appliances = [
        ApplianceModel.model_construct(
            **{name: getattr(one, name) for name in OWN if name != "power"},
            watts=one.power,
            protected_w=one.protected_power,
            protected_run_s=one.protected_run_s,
        )
        for one in home.appliances
    ]
    stated = {name: getattr(home, name) for name in own}
    return HomeModel.model_construct(**stated, id=key, appliances=appliances)


def to_request(given: PromiseRequest, **more: Any) -> Request:
    """Return the request of the library that a request of the page means."""
    home = None if given.home is None else to_home(given.home)
    stated = given.model_dump(include=SHARED, exclude_none=True) | more
    hide = [parse_wish(one) or _appliance(one, home) for one in given.hide]
    if given.epsilon is None:
        return Request(hide=hide or None, home=home, **stated)
    # What the data is for chooses no noise then, and ε is for the use that encloses all.
    stated.pop("purpose", None)
    if hide:
        home = Request(hide=hide, home=home).protected_home
    return Request(home=home, **stated)


def _appliance(name: str, home: Home | None) -> Appliance:
    """The appliance that a name of a request means."""
    return Appliance.from_words(name) if home is None else home.appliances[home.index(name)]
