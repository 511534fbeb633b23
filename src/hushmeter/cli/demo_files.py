"""The files that `hushmeter demo` writes, and that its page rests on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.cli.output import json_text

if TYPE_CHECKING:
    from hushmeter.advice.planner import Advice
    from hushmeter.home import Home
    from hushmeter.releases.series import Release
    from hushmeter.study.plan import Case
    from hushmeter.trace import Trace

HOME = "evening"
READINGS_PER_DAY = 14_400
EPSILONS = (10.0, 3.0, 1.0, 0.3)
SHOWN = 1.0
"""ε of the picture and the receipt."""
NOTHING = 1e-3
"""ε at which the readings say nothing: what is left is a guess from habits."""
HIDE, MAX_ODDS = "kettle", 0.6
ATTACKERS = (
    ("everything off", "all-off"),
    ("as at the first reading", "hold"),
    ("one-shot (P3)", "one-shot"),
    ("multi-shot (Algorithm 1)", "multi-shot"),
    ("hierarchical (Algorithm 2)", "hierarchical"),
    ("combinatorial optimisation", "co"),
    ("integer program", "ip"),
    ("aided integer program", "alip"),
    ("factorial HMM", "fhmm"),
    ("Sparse-HMM", "sparse-hmm"),
    ("Bayes, told the noise", "bayes"),
)
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
OTHERS = (
    "meter.csv",
    "home.toml",
    *(f"{name}.{kind}" for name in ("metered", "released") for kind in ("png", "svg", "csv")),
)
WRITTEN = (*FOR_THE_PAGE, *OTHERS)
STUDY = """\
# The study of `hushmeter demo`: run it again with `hushmeter sweep study.toml -o results`.
name = "demo"
seed = {seed}
seeds = 3
epsilon = [{epsilons}]
protect = "appliance"

[[case]]
home = "{home}"
readings = {readings}
"""


def clear_sweep(output: Path) -> None:
    """A sweep writes into no folder that holds an earlier one."""
    for name in FOR_THE_PAGE:
        if name.startswith("sweep/"):
            (output / name).unlink(missing_ok=True)


def write_study(output: Path, seed: int, readings: int) -> None:
    """The study, as TOML."""
    from hushmeter.files import write_text

    epsilons = ", ".join(f"{epsilon:g}" for epsilon in EPSILONS)
    text = STUDY.format(seed=seed, epsilons=epsilons, home=HOME, readings=readings)
    for label, name in ATTACKERS:
        text += f'\n[[attacker]]\nname = "{name}"\nlabel = "{label}"\n'
    write_text(output / "study.toml", text, force=True)


def write_inputs(case: Case, output: Path) -> None:
    """The home and its readings, for the next commands."""
    from hushmeter.files import write_table

    trace, home = case.test, case.home
    appliances = {} if trace.power is None else dict(zip(home.names, trace.power.T, strict=True))
    meter = {"timestamp": trace.times, "watts": trace.readings, **appliances}
    write_table(output / "meter.csv", meter, force=True)
    home.save(output / "home.toml", force=True)


def sweep_day(output: Path) -> None:
    """Every attacker at every ε; the four ε are short work, so one worker is quickest."""
    from hushmeter.study.sweep import run_study

    run_study(output / "study.toml", output / "sweep", jobs=1, resume=False)


def look_at_day(case: Case, seed: int, output: Path) -> Release:
    """Pictures of the day as metered and as released, with what Bayes sees, and a receipt."""
    from hushmeter.attack.registry import attackers
    from hushmeter.files import write_text
    from hushmeter.privacy.units import calibrate, resolve_unit
    from hushmeter.releases.series import release

    home, trace = case.home, case.test
    unit = resolve_unit(interval_s=trace.interval_s, home=home)
    mechanism = calibrate("laplace", SHOWN, unit)
    released = release(trace, mechanism, unit, home=home, rng=seed)
    write_text(output / "released.receipt.json", released.receipt.to_json(), force=True)
    private = json_text(released.private.to_dict(released.receipt))
    write_text(output / "released.private.json", private, force=True)
    noisy = trace.replace_readings(released.trace.readings)
    bayes = attackers["bayes"](home).fit(case.train)
    _save_day(bayes, trace, "metered", None, None, seed, output)
    _save_day(bayes.knows(mechanism), noisy, "released", SHOWN, unit.sentence, seed, output)
    _save_guess(bayes.knows(calibrate("laplace", NOTHING, unit)), trace, seed, output)
    return released


def _save_guess(attacker: Any, trace: Trace, seed: int, output: Path) -> None:
    """What the attacker makes of the habits of the home: guess.json."""
    from hushmeter.files import write_text
    from hushmeter.report import GUESS
    from hushmeter.scoring import score

    noise = trace.replace_readings(attacker.mechanism.release(trace.readings, rng=seed))
    states = attacker.predict(noise, initial_state=trace.truth()[0], rng=seed)
    found = {a.name: a.alpha for a in score(states, trace).per_appliance}
    answer = {"schema": GUESS, "home": HOME, "attacker": ATTACKERS[-1][0], "alpha": found}
    write_text(output / "guess.json", json_text(answer), force=True)


def _save_day(
    attacker: Any,
    shown: Trace,
    name: str,
    epsilon: float | None,
    unit: str | None,
    seed: int,
    output: Path,
) -> None:
    """name.png, .svg, .csv and name.json: a day and what an attacker saw of it."""
    from hushmeter.files import write_text
    from hushmeter.plot.figure import save_figure
    from hushmeter.plot.readings import draw_attack
    from hushmeter.report import DAY
    from hushmeter.scoring import score

    states = attacker.predict(shown, initial_state=shown.truth()[0], rng=seed)
    found = score(states, shown)
    data = {"timestamp": shown.times, "watts": shown.readings}
    for i, appliance in enumerate(shown.names or ()):
        data[f"{appliance} true"] = shown.truth()[:, i].astype("int8")
        data[f"{appliance} guess"] = states[:, i].astype("int8")
    words = "as metered" if epsilon is None else f"released at ε = {epsilon:g} a reading"
    title = f"{_stretch(shown)} of “{HOME}” {words}: what the Bayes attacker sees"
    save_figure(draw_attack(shown, states, found, title), output, name, data, force=True)
    answer = {
        "schema": DAY,
        "title": f"{_stretch(shown)} of “{HOME}”, {words}",
        "home": HOME,
        "epsilon": epsilon,
        "unit": unit,
        "attacker": ATTACKERS[-1][0],
        "score": found,
    }
    write_text(output / f"{name}.json", json_text(answer), force=True)


def _stretch(trace: Trace) -> str:
    from hushmeter.formatting import short_duration

    return (
        "A day" if len(trace) == READINGS_PER_DAY else short_duration(len(trace) * trace.interval_s)
    )


def advise_household(home: Home, trace: Trace, output: Path) -> Advice:
    """The cheapest way to hide one appliance: advice.json."""
    from hushmeter.advice.planner import advise
    from hushmeter.advice.sentences import explain
    from hushmeter.files import write_text
    from hushmeter.report import ADVICE

    found = advise(home, HIDE, max_odds=MAX_ODDS, interval_s=trace.interval_s)
    answer = {"schema": ADVICE, "advice": found, "sentences": explain(found)}
    write_text(output / "advice.json", json_text(answer), force=True)
    return found
