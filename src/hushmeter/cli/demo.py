"""`hushmeter demo`: one synthetic day, attacked as metered and as released."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushmeter.cli.output import print_json, print_table

if TYPE_CHECKING:
    from hushmeter.checks import BoolArray
    from hushmeter.home import Home
    from hushmeter.protect.publish import Release
    from hushmeter.scoring import Score
    from hushmeter.trace import Trace

HOME = "evening"
READINGS_PER_DAY = 14_400
EPSILON = 1.0
ATTACKERS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("everything off", "all-off", {}),
    ("as at the first reading", "hold", {}),
    ("one-shot (P3)", "one-shot", {}),
    ("multi-shot (Algorithm 1)", "multi-shot", {}),
    ("hierarchical (Algorithm 2)", "hierarchical", {}),
    (
        "hierarchical, exact (P1), signed",
        "hierarchical",
        {"solver": "exact", "direction": "signed"},
    ),
    ("combinatorial optimisation", "co", {}),
    ("factorial HMM", "fhmm", {}),
    ("Sparse-HMM", "sparse-hmm", {}),
    ("Bayes, told the noise", "bayes", {}),
)
REMARK = (
    "α alone misleads: a home is mostly off, so saying “everything off” already scores high. The "
    "paper’s relaxation (P3) always names the largest appliances, whichever switched, and falls "
    "below that floor even without noise. Attackers that ignore the noise look blind where one "
    "that knows it still sees: noise drawn anew for every reading averages out over a run."
)


@dataclass(frozen=True)
class Row:
    """One attacker of the demo, on the day as metered and as released."""

    label: str
    floor: bool
    metered: Score
    released: Score


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write to.")] = Path(
        "hushmeter-demo"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the synthetic day.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an earlier demo.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Attack one day of a synthetic home, as metered and as released; write pictures and a page.

    Example: hushmeter demo -o demo-report
    """
    from hushmeter import synth
    from hushmeter.files import refuse_overwrite
    from hushmeter.protect.publish import release_unit
    from hushmeter.protect.sensitivity import calibrate, resolve_unit

    page = output / "index.html"
    refuse_overwrite(page, force)
    home = synth.ready_home(HOME)
    trace = synth.trace(home, READINGS_PER_DAY, seed=seed)
    unit = resolve_unit(interval_s=trace.interval_s, home=home)
    mechanism = calibrate("laplace", EPSILON, unit)
    released = release_unit(trace, mechanism, unit, home=home, rng=seed)
    rows, guesses = _attack_all(home, trace, released.trace, mechanism, seed)
    pictures = _draw(trace, released, rows[-1], guesses, output, force)
    _write_inputs(home, trace, output, force)
    _write_page(page, home, trace, released, rows, pictures, seed, force)
    _report(rows, page, json)


def _attack_all(
    home: Home, trace: Trace, released: Trace, mechanism: Any, seed: int
) -> tuple[list[Row], list[BoolArray]]:
    """Every attacker, trained on another day; and what the last one, Bayes, saw."""
    from hushmeter import synth
    from hushmeter.attack.registry import attackers
    from hushmeter.scoring import score

    rows: list[Row] = []
    guesses: list[BoolArray] = []
    other_day = synth.trace(home, READINGS_PER_DAY, seed=seed + 1000)
    for label, name, parameters in ATTACKERS:
        attacker = attackers[name](home, **parameters).fit(other_day)
        guesses = []
        for seen, told in ((trace, None), (released, mechanism)):
            if name == "bayes":
                attacker.mechanism = told  # type: ignore[attr-defined]
            guesses.append(attacker.predict(seen, initial_state=trace.truth()[0], rng=seed))
        scores = [score(states, trace) for states in guesses]
        rows.append(Row(label, name in ("all-off", "hold"), *scores))
    return rows, guesses


def _draw(
    trace: Trace, released: Release, bayes: Row, guesses: list[BoolArray], output: Path, force: bool
) -> list[Path]:
    """The day as metered and as released, each with what Bayes saw of it."""
    from hushmeter import plot

    noisy = trace.replace_readings(released.trace.readings)
    sheets = (
        ("metered", trace, guesses[0], bayes.metered, "as metered"),
        ("released", noisy, guesses[1], bayes.released, f"released at ε = {EPSILON:g} a reading"),
    )
    paths = []
    for name, shown, states, score, words in sheets:
        data = {"timestamp": shown.times, "watts": shown.readings}
        for i, appliance in enumerate(shown.names or ()):
            data[f"{appliance} true"] = shown.truth()[:, i].astype("int8")
            data[f"{appliance} guess"] = states[:, i].astype("int8")
        figure = plot.draw_attack(
            shown, states, score, f"A day of “{HOME}” {words}: what the Bayes attacker sees"
        )
        paths.append(plot.save_figure(figure, output, name, data, force=force)["png"])
    return paths


def _write_inputs(home: Home, trace: Trace, output: Path, force: bool) -> None:
    """The home and its readings, for the next commands."""
    from hushmeter.files import write_table

    appliances = {} if trace.power is None else dict(zip(home.names, trace.power.T, strict=True))
    meter = {"timestamp": trace.times, "watts": trace.readings, **appliances}
    write_table(output / "meter.csv", meter, force=force)
    home.save(output / "home.toml", force=force)


def _write_page(
    page: Path,
    home: Home,
    trace: Trace,
    released: Release,
    rows: list[Row],
    pictures: list[Path],
    seed: int,
    force: bool,
) -> None:
    from hushmeter import __version__
    from hushmeter.report import embed_png, write_page
    from hushmeter.wording import explain

    context = {
        "version": __version__,
        "seed": seed,
        "home": HOME,
        "epsilon": f"{EPSILON:g}",
        "pictures": [embed_png(path) for path in pictures],
        "lead": _lead(rows[-1].metered),
        "metered": explain(rows[-1].metered),
        "released": explain(rows[-1].released),
        "promise": explain(released)[0],
        "receipt": str(released.receipt),
        "attackers": rows,
        "remark": REMARK,
        "assumptions": home.check(trace).sentences,
    }
    write_page("demo.html", page, context, force=force)


def _lead(score: Score) -> str:
    seen = [a.name for a in score.per_appliance if a.visibility > 0.5]
    return (
        f"From the total alone, an attacker who knows this home names the state of its "
        f"{len(score.per_appliance)} appliances rightly in {100 * score.alpha:.0f} of 100 moments "
        f"and follows {len(seen)} of them: {', '.join(seen)}."
    )


def _report(rows: list[Row], page: Path, json: bool) -> None:
    if json:
        print_json({"attackers": rows, "page": str(page)})
        return
    table = [
        (
            row.label,
            *(f"{score.alpha:.3f} / {score.f1:.2f}" for score in (row.metered, row.released)),
        )
        for row in rows
    ]
    head = ("attacker", "as metered", f"released, ε = {EPSILON:g} a reading")
    print_table(f"One day of “{HOME}”: α / macro F1", head, table)
    typer.echo(_lead(rows[-1].metered))
    typer.echo(f"The page: {page.resolve()}")
