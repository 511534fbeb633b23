"""For the household: which appliance is visible at which ε, in odds, and what hiding it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hushmeter.formatting import out_of_100
from hushmeter.privacy.units import resolve_unit
from hushmeter.report.blocks import (
    Block,
    Cell,
    Heading,
    Picture,
    Points,
    Section,
    Table,
    epsilon_cell,
    make_table,
    number,
    shade,
    spread_out,
    text,
)
from hushmeter.report.collect import Results, Saved, SweepResult, reading
from hushmeter.report.cost import tell_cost
from hushmeter.report.pictures import embed_file
from hushmeter.report.sights import FOLLOWED, ApplianceSights, epsilons_of, habits_of, look

if TYPE_CHECKING:
    from hushmeter.study.plan import Case

MOST_EPSILONS = 8
IN_WORDS = 4
LEAD = (
    "What a stranger who holds the readings can tell about the appliances, how often, and what "
    "it costs to stop it. ε is the strength of the noise: smaller hides more. It always belongs "
    "to a unit, named beside it."
)
HABITS = (
    "Without your data: the best of always off, always on, as at the start, and what an attacker "
    "makes of the habits of the home without its readings."
)
NO_HABITS = (
    "Without your data: the best of always off, always on and as at the start. An attacker who "
    "knows the habits of a home may guess better, so a little above it need not come from the "
    "readings."
)


def tell_household(results: Results) -> Section | None:
    """The section, or None where nothing speaks to a household."""
    blocks: list[Block] = []
    for sweep in results.sweeps:
        with reading(sweep.folder / "manifest.json"):
            for home in sweep.table["home"].unique():
                blocks += _visible(sweep, str(home), results)
    for day in results.days:
        with reading(day.path):
            blocks += _day(day, habits_of(results.guesses, day.content["home"]))
    for receipt in results.receipts:
        with reading(receipt.path):
            blocks += _receipt(receipt)
    for answer in results.advice:
        with reading(answer.path):
            blocks += [
                Heading(f"To hide the {answer.content['advice']['goal']['appliance']}"),
                text(answer.content["sentences"][0], role="key"),
                Points(tuple(answer.content["sentences"][1:])),
            ]
    return Section("household", "For the household", LEAD, tuple(blocks)) if blocks else None


def unit_sentence(manifest: dict[str, Any], case: Case | None) -> str:
    """What every ε of a sweep protects; sharper where the readings are known."""
    if case is not None:
        return resolve_unit(
            manifest["protect"],
            interval_s=case.test.interval_s,
            home=case.home,
            watts=manifest["sensitivity"],
        ).sentence
    subject = {
        "appliance": "whether any one appliance is on",
        "fluctuation": "fluctuations within a state, not switches",
        "range": "any value of a reading",
        "change": f"any change of up to {manifest['sensitivity']} W",
    }[manifest["protect"]]
    return f"{subject}, in one metered reading"


def _visible(sweep: SweepResult, home: str, results: Results) -> list[Block]:
    """Table appliance × ε, who is followed, and the cost."""
    part = sweep.table[sweep.table["home"] == home]
    mechanism = str(part["mechanism"].iloc[0])
    rows = look(sweep, home, mechanism, results.guesses)
    metered = _as_metered(rows, results.days, home)
    shown = spread_out(epsilons_of(part), MOST_EPSILONS)
    lookers = part["attacker"].nunique()
    unit = unit_sentence(sweep.manifest, sweep.case(home))
    caption = (
        f"“{home}”: right in … of 100 moments, the best of {lookers} attackers for each appliance "
        f"and ε ({mechanism} noise, means over {part['seed'].nunique()} releases). The deeper the "
        "shade, the more of what a guess leaves open was closed."
    )
    return [
        Heading(f"What is visible in “{home}”"),
        text(f"Every ε in this part protects {unit}.", role="key"),
        Points(tuple(_followed(rows, shown, metered))),
        _sight_table(rows, shown, metered, caption),
        text(HABITS if results.guesses else NO_HABITS, role="small"),
        *(
            Points(tuple(_odds(row, epsilon) for row in rows), f"In words, at ε = {epsilon:.3g}")
            for epsilon in spread_out(shown, IN_WORDS)
        ),
        *tell_cost(sweep, home, mechanism, shown),
    ]


def _sight_table(
    rows: list[ApplianceSights], shown: list[float], metered: dict[str, float], caption: str
) -> Table:
    head: list[str | Cell] = ["appliance", "without your data"]
    head += [Cell("as metered", note="no noise")] if metered else []
    body = []
    for row in rows:
        cells: list[str | Cell] = [row.name, _share(row.guess)]
        if metered:
            right = metered[row.name]
            seen = (right - row.guess) / (1 - row.guess) if row.guess < 1 else 0.0
            cells.append(Cell(out_of_100(right), shade(seen)))
        for epsilon in shown:
            sight = row.sights[epsilon]
            cells.append(Cell(_share(sight.right), shade(sight.visibility)))
        last = row.followed_down_to
        cells.append("–" if last is None else f"ε = {last:.3g}")
        body.append(cells)
    return make_table(caption, [*head, *map(epsilon_cell, shown), "followed down to"], body)


def _followed(
    rows: list[ApplianceSights], shown: list[float], metered: dict[str, float]
) -> list[str]:
    """How many appliances are followed, at every ε."""
    lines = []
    if metered:
        seen = [r.name for r in rows if metered[r.name] - r.guess > FOLLOWED * (1 - r.guess)]
        lines.append(f"As metered, {_names(seen, len(rows))}")
    for epsilon in shown:
        seen = [r.name for r in rows if r.sights[epsilon].visibility > FOLLOWED]
        lines.append(f"At ε = {epsilon:.3g} a reading, {_names(seen, len(rows))}")
    lines.append(
        "Followed means: more than half of what a guess without your data leaves open is closed."
    )
    return lines


def _names(seen: list[str], total: int) -> str:
    who = f": {', '.join(seen)}." if seen else "."
    return f"{len(seen)} of {total} appliances can be followed{who}"


def _odds(row: ApplianceSights, epsilon: float) -> str:
    sight = row.sights[epsilon]
    return (
        f"Right about the {row.name} in {_share(sight.right)} of 100 moments; without your data: "
        f"{_share(row.guess)}. Best: {sight.attacker}."
    )


def _share(value: float) -> str:
    return "–" if np.isnan(value) else out_of_100(value)


def _as_metered(rows: list[ApplianceSights], days: list[Saved], home: str) -> dict[str, float]:
    """Odds without noise, where a day of the same home was attacked as metered."""
    for day in days:
        with reading(day.path):
            if day.content["home"] == home and day.content["epsilon"] is None:
                found = {a["name"]: a["alpha"] for a in day.content["score"]["per_appliance"]}
                if set(found) == {row.name for row in rows}:
                    return found
    return {}


def _day(day: Saved, habits: dict[str, float]) -> list[Block]:
    """A day as an attacker saw it."""
    told = day.content
    sentences = [
        f"Right about the {a['name']} in {out_of_100(a['alpha'])} of 100 moments; without your "
        "data: "
        f"{out_of_100(max(a['floor'], a['hold_floor'], habits.get(a['name'], 0.0)))}."
        for a in told["score"]["per_appliance"]
    ]
    source = embed_file(day.path.with_suffix(""))
    blocks: list[Block] = [Heading(told["title"])]
    if told["unit"] is not None:
        blocks.append(text(f"ε = {told['epsilon']:g} protects {told['unit']}.", role="key"))
    if source is not None:
        caption = (
            f"Grey: the meter. Strips: blue what was really on, green what the attacker "
            f"({told['attacker']}) saw of it, red hatching its mistakes."
        )
        blocks.append(Picture(source, f"The meter, and what was seen: {told['title']}.", caption))
    return [*blocks, Points(tuple(sentences))]


def _receipt(receipt: Saved) -> list[Block]:
    """What a release promises: proved odds of the best possible attacker."""
    told = receipt.content
    promise = f"ε = {told['epsilon']:.3g}" + (f" (δ = {told['delta']:g})" if told["delta"] else "")
    lines = [f"Protected at {promise}: {told['unit']['sentence']}."]
    if told["kind"] == "simulation":
        lines.insert(0, "A simulation, not to be published.")
    rows: list[tuple[str | Cell, ...]] = [
        (f"{a['name']} ({a['watts']:g} W)", *(_promised(a[k]) for k in ("reading", "run", "day")))
        for a in told.get("appliances", ())
    ]
    name = receipt.path.name.removesuffix(".receipt.json").removesuffix(".private.json")
    blocks: list[Block] = [
        Heading(f"What the release promises ({name})"),
        text(" ".join(lines), role="key"),
    ]
    if rows:
        caption = (
            "Proved: how often of 100 times the best possible attacker, who knows everything else, "
            "is right about an appliance. A coin: 50. Below: the ε of that span, with "
            f"δ′ = {told['composition_delta']:g}."
        )
        head = ("appliance", "from one reading", "from one run", "from one day")
        blocks.append(make_table(caption, head, rows))
    return blocks


def _promised(entry: dict[str, Any] | None) -> Cell:
    if entry is None:
        return Cell("–", note="length unknown")
    epsilon = min(entry["basic"], entry["pld"])
    odds = min(entry["odds"], 1 - 1e-12)
    return Cell(out_of_100(odds), shade(2 * odds - 1), f"ε = {number(epsilon)}")
