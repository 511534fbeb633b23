"""The demo: one synthetic day is released at four ε, attacked, and described on a page.

No attacker and no baseline of the demo knows which appliances were on at the first reading.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.files import json_text, write_table, write_text
from hushmeter.formatting import short_duration
from hushmeter.report import ADVICE, DAY, GUESS
from hushmeter.study import COMPARED

if TYPE_CHECKING:
    from hushmeter.advice.planner import Advice
    from hushmeter.attack.base import Attacker
    from hushmeter.attack.strongest import Strongest
    from hushmeter.home import Home
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.releases.release import Release
    from hushmeter.report.results import Results
    from hushmeter.study.definition import Case
    from hushmeter.trace import Trace

HOME = "evening"
READINGS_PER_DAY = 14_400
EPSILONS = (10.0, 3.0, 1.0, 0.3)
SHOWN = 1.0
"""ε of the picture and of the receipt."""
UNINFORMATIVE = 1e-3
"""ε at which the readings reveal nothing: what remains is a guess from the habits of the home."""
HIDE, MAX_ODDS = "kettle", 0.6
BASELINE = {"all-off": "everything off"}
FOR_THE_PAGE = (
    "study.toml",
    "sweep/cells.jsonl",
    "sweep/manifest.json",
    "sweep/results.parquet",
    "metered.json",
    "released.json",
    "released.receipt.json",
    "released.private.json",
    "guess.json",
    "advice.json",
)
PAGE = "index.html"
WRITTEN = (
    *FOR_THE_PAGE,
    "meter.csv",
    "home.toml",
    *(f"{name}.{kind}" for name in ("metered", "released") for kind in ("png", "svg", "csv")),
)
"""All files of the demo besides the page."""
STUDY = """\
# The study of `hushmeter demo`. Run it again with `hushmeter sweep study.toml -o results`.
name = "demo"
seed = {seed}
seeds = 3
epsilon = [{epsilons}]
protect = "appliance"
knows_first_state = false

[[case]]
home = "{home}"
readings = {readings}
"""


@dataclass(frozen=True)
class Demo:
    """What the demo made."""

    page: Path  # The HTML file
    results: Results  # The results on the page
    released: Release  # The simulated release at ε = 1
    advice: Advice  # The cheapest way to hide the kettle


def make_demo(
    output: Path, *, readings: int, seed: int, note: Callable[[str], None] = lambda _: None
) -> Demo:
    """Make a synthetic day, release and attack it, and write the page with all its files."""
    from hushmeter.report.page import write_report
    from hushmeter.report.results import collect_results
    from hushmeter.study.definition import read_study
    from hushmeter.study.sweep import run_study

    _clear_sweep(output)
    _write_study(output, seed, readings)
    note("making a day")
    case = read_study(output / "study.toml").cases[0]
    _write_inputs(case, output)
    note(f"attacking the day at four ε with {len(COMPARED)} attackers")
    # The sweep is short, so that starting further workers would take longer than it saves.
    run_study(output / "study.toml", output / "sweep", jobs=1, resume=False)
    note("attacking the day as metered and as released")
    released = _attack_day(case, seed, output)
    note("searching for the cheapest way to hide the kettle")
    advice = _advise(case.home, case.test, output)
    note("writing the page")
    results = collect_results([output / name for name in FOR_THE_PAGE])
    write_report(results, output / PAGE, force=True)
    return Demo(output / PAGE, results, released, advice)


def _clear_sweep(output: Path) -> None:
    """Remove the sweep of an earlier demo, because a sweep refuses a folder that holds another."""
    for name in FOR_THE_PAGE:
        if name.startswith("sweep/"):
            (output / name).unlink(missing_ok=True)


def _write_study(output: Path, seed: int, readings: int) -> None:
    """Write the study as TOML."""
    epsilons = ", ".join(f"{epsilon:g}" for epsilon in EPSILONS)
    text = STUDY.format(seed=seed, epsilons=epsilons, home=HOME, readings=readings)
    for name, label in (BASELINE | COMPARED).items():
        text += f'\n[[attacker]]\nname = "{name}"\nlabel = "{label}"\n'
    write_text(output / "study.toml", text, force=True)


def _write_inputs(case: Case, output: Path) -> None:
    """Write the home and its readings, for the next commands of the reader."""
    trace, home = case.test, case.home
    appliances = {} if trace.power is None else dict(zip(home.names, trace.power.T, strict=True))
    meter = {"timestamp": trace.times, "watts": trace.readings, **appliances}
    write_table(output / "meter.csv", meter, force=True)
    home.save(output / "home.toml", force=True)


def _attack_day(case: Case, seed: int, output: Path) -> Release:
    """Draw the day as metered and as released with what is detected, and write a receipt."""
    from hushmeter.attack.registry import attackers
    from hushmeter.attack.strongest import QUICK, Strongest
    from hushmeter.privacy.units import metered
    from hushmeter.releases.request import Request

    home, trace = case.home, case.test
    # The study has the same noise.
    request, facts = Request(home=home, epsilon=SHOWN, grid=1), metered(trace)
    promise = request.resolve(facts)
    released = promise.release(trace, rng=seed)
    assert released.private is not None
    write_text(output / "released.receipt.json", released.receipt.to_json(), force=True)
    private = json_text(released.private.to_dict(released.receipt))
    write_text(output / "released.private.json", private, force=True)
    noisy = trace.replace_readings(released.trace.readings)
    fitted = {name: attackers[name](home).fit(case.train) for name in COMPARED}
    strongest = Strongest(home, candidates=QUICK, seed=seed).fit_with(case.train, fitted)
    _save_day(strongest, trace, "metered", seed, output, best=_best(fitted, trace, seed))
    known = strongest.knows(promise.noise)
    _save_day(known, noisy, "released", seed, output, epsilon=SHOWN, unit=promise.unit.sentence)
    blind = request.with_changes(epsilon=UNINFORMATIVE).resolve(facts).noise
    _save_guess(fitted["bayes"], blind, trace, seed, output)
    return released


def _best(fitted: dict[str, Attacker], trace: Trace, seed: int) -> dict[str, float]:
    """Return how often the best of all attackers is right about each appliance without noise."""
    from hushmeter.scoring import score

    scores = [score(one.predict(trace, rng=seed), trace).per_appliance for one in fitted.values()]
    best: dict[str, float] = {}
    for appliance in (appliance for found in scores for appliance in found):
        best[appliance.name] = max(best.get(appliance.name, 0.0), appliance.alpha)
    return best


def _save_guess(
    attacker: Attacker, mechanism: Mechanism, trace: Trace, seed: int, output: Path
) -> None:
    """Write guess.json: what an attacker concludes from the habits of the home alone."""
    from hushmeter.scoring import score

    noise = trace.replace_readings(mechanism.release(trace.readings, rng=seed))
    found = score(attacker.knows(mechanism).predict(noise, rng=seed), trace)
    alpha = {a.name: a.alpha for a in found.per_appliance}
    answer = {"schema": GUESS, "home": HOME, "attacker": COMPARED["bayes"], "alpha": alpha}
    write_text(output / "guess.json", json_text(answer), force=True)


def _name_choice(attacker: Strongest) -> str:
    """Name the attacker that was the strongest under the noise in question."""
    chosen = attacker.choose().name
    return COMPARED.get(chosen, "a guess without data")


def _save_day(
    attacker: Strongest,
    shown: Trace,
    name: str,
    seed: int,
    output: Path,
    *,
    epsilon: float | None = None,
    unit: str | None = None,
    best: dict[str, float] | None = None,
) -> None:
    """Write the figure name.png, .svg, .csv of an attacked day, and its scores as name.json."""
    from hushmeter.plot.figure import save_figure
    from hushmeter.plot.readings import draw_attack
    from hushmeter.scoring import score

    states = attacker.predict(shown, rng=seed)
    found = score(states, shown)
    data: dict[str, Any] = {"timestamp": shown.times, "watts": shown.readings}
    for i, appliance in enumerate(shown.names or ()):
        data[f"{appliance} true"] = shown.truth()[:, i].astype("int8")
        data[f"{appliance} guess"] = states[:, i].astype("int8")
    words = "as metered" if epsilon is None else f"released at ε = {epsilon:g} for one reading"
    chosen = _name_choice(attacker)
    title = f"{_stretch(shown)} of “{HOME}” {words}: what the strongest attacker ({chosen}) detects"
    save_figure(draw_attack(shown, states, found, title), output, name, data, force=True)
    answer: dict[str, Any] = {
        "schema": DAY,
        "title": f"{_stretch(shown)} of “{HOME}”, {words}",
        "home": HOME,
        "epsilon": epsilon,
        "unit": unit,
        "attacker": f"the strongest: {chosen}",
        "score": found,
    }
    if best is not None:
        answer["best"] = best
    write_text(output / f"{name}.json", json_text(answer), force=True)


def _stretch(trace: Trace) -> str:
    """Return the length of the day in words."""
    if len(trace) == READINGS_PER_DAY:
        return "A day"
    return short_duration(len(trace) * trace.interval_s)


def _advise(home: Home, trace: Trace, output: Path) -> Advice:
    """Find the cheapest way to hide one appliance, and write it as advice.json."""
    from hushmeter.advice.planner import advise
    from hushmeter.advice.sentences import explain
    from hushmeter.privacy.units import Metered
    from hushmeter.releases.request import Request

    wish = Request(hide=HIDE, odds=MAX_ODDS, home=home)
    found = advise(wish, Metered(trace.interval_s))
    answer = {"schema": ADVICE, "advice": found, "sentences": explain(found)}
    write_text(output / "advice.json", json_text(answer), force=True)
    return found
