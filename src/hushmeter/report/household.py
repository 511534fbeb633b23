"""The section for the household: which appliance is visible at which ε, and the cost of hiding."""

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
    embed_file,
    epsilon_cell,
    make_table,
    number,
    shade,
    spread_out,
    text,
)
from hushmeter.report.collect import Results, Saved, SweepResult, reading
from hushmeter.report.cost import tell_cost
from hushmeter.report.visibility import (
    FOLLOWED,
    ApplianceVisibility,
    blind_labels,
    epsilons_of,
    habits_of,
    rate_appliances,
    visibility,
)

if TYPE_CHECKING:
    from hushmeter.study.definition import Case

MOST_EPSILONS = 8
IN_WORDS = 4
LEAD = (
    "This part shows what somebody who has the readings can find out about your appliances, how "
    "often they are right, and what it costs to prevent this. ε says how much the released "
    "readings reveal: a smaller ε hides more. The unit that ε protects is named beside it."
)
HABITS = (
    "“Without your data” is the best guess of somebody who does not have the readings: always "
    "off, always on, or a guess from the habits of the home."
)
NO_HABITS = (
    "“Without your data” is the better of the guesses always off and always on. Somebody who "
    "knows the habits of the home may guess better, so a number slightly above it need not come "
    "from the readings."
)
PROVED = (
    "The table is proved for the worst case: an attacker who knows everything except whether the "
    "appliance was on, and who thinks that on and off are equally likely. The attackers in the "
    "tables above know less, but they also know how rarely an appliance runs. Therefore the two "
    "kinds of numbers cannot be compared."
)


def tell_household(results: Results) -> Section | None:
    """Write the section."""
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
    """Return what every ε of a sweep protects, in words."""
    if case is not None:
        return resolve_unit(
            manifest["protect"],
            interval_s=case.test.interval_s,
            home=case.home,
            size=manifest["sensitivity"],
        ).sentence
    subject = {
        "appliance": "whether any one appliance is on",
        "fluctuation": "fluctuations within a state, but not switches",
        "range": "any value of a reading",
        "change": f"any change of up to {manifest['sensitivity']} W",
    }[manifest["protect"]]
    return f"{subject}, in one metered reading"


def _visible(sweep: SweepResult, home: str, results: Results) -> list[Block]:
    """Tabulate appliances × ε, and describe which are followed and what the noise costs."""
    part = sweep.table[sweep.table["home"] == home]
    mechanism = str(part["mechanism"].iloc[0])
    rows = rate_appliances(sweep, home, mechanism, results.guesses)
    metered = as_metered(rows, results.days, home)
    shown = spread_out(epsilons_of(part), MOST_EPSILONS)
    attackers = part["attacker"].nunique() - len(blind_labels(sweep))
    unit = unit_sentence(sweep.manifest, sweep.case(home))
    caption = (
        f"“{home}”: in how many out of 100 moments somebody is right about an appliance, with the "
        f"best of {attackers} attackers or with a guess without your data, whichever is better "
        f"({mechanism} noise, means over {part['seed'].nunique()} releases). A darker shade means "
        "that the readings reveal more."
    )
    return [
        Heading(f"What is visible in “{home}”"),
        text(f"Every ε in this part protects {unit}.", role="key"),
        Points(tuple(_followed(rows, shown, metered))),
        _visibility_table(rows, shown, metered, caption),
        text(HABITS if results.guesses else NO_HABITS, role="small"),
        *(
            Points(
                tuple(_odds(row, epsilon) for row in rows),
                f"The same in words, at ε = {epsilon:.3g} for one reading",
            )
            for epsilon in spread_out(shown, IN_WORDS)
        ),
        *tell_cost(sweep, home, mechanism, shown),
    ]


def _visibility_table(
    rows: list[ApplianceVisibility], shown: list[float], metered: dict[str, float], caption: str
) -> Table:
    """Return the table of appliances × ε."""
    head: list[str | Cell] = ["appliance", "without your data"]
    head += [Cell("as metered", note="no noise")] if metered else []
    body = []
    for row in rows:
        cells: list[str | Cell] = [row.name, _share(row.guess)]
        if metered:
            right = metered[row.name]
            cells.append(Cell(out_of_100(right), shade(visibility(right, row.guess))))
        for epsilon in shown:
            found = row.best[epsilon]
            cells.append(Cell(_share(found.right), shade(found.visibility)))
        last = row.followed_down_to
        cells.append("–" if last is None else f"ε = {last:.3g}")
        body.append(cells)
    return make_table(caption, [*head, *map(epsilon_cell, shown), "followed down to"], body)


def _followed(
    rows: list[ApplianceVisibility], shown: list[float], metered: dict[str, float]
) -> list[str]:
    """Return one sentence for each ε about the appliances that can be followed."""
    lines = []
    if metered:
        names = [r.name for r in rows if visibility(metered[r.name], r.guess) > FOLLOWED]
        lines.append(f"Without noise, {_names(names, len(rows))}")
    for epsilon in shown:
        names = [r.name for r in rows if r.best[epsilon].visibility > FOLLOWED]
        lines.append(f"At ε = {epsilon:.3g} for one reading, {_names(names, len(rows))}")
    lines.append(
        "An appliance can be followed if the readings remove more than half of the doubt that a "
        "guess without your data leaves."
    )
    return lines


def _names(followed: list[str], total: int) -> str:
    """Return “2 of 8 appliances can be followed: …”."""
    who = f": {', '.join(followed)}." if followed else "."
    return f"{len(followed) or 'none'} of {total} appliances can be followed{who}"


def _odds(row: ApplianceVisibility, epsilon: float) -> str:
    """Return a sentence about one appliance at one ε."""
    found = row.best[epsilon]
    if found.right == row.guess:
        return (
            f"No attacker is better about the {row.name} than a guess without your data, which is "
            f"right in {_share(row.guess)} out of 100 moments."
        )
    return (
        f"The attacker “{found.attacker}” is right about the {row.name} in {_share(found.right)} "
        f"out of 100 moments. A guess without your data is right in {_share(row.guess)}."
    )


def _share(value: float) -> str:
    """Format a share out of 100, or a dash if it is unknown."""
    return "–" if np.isnan(value) else out_of_100(value)


def as_metered(rows: list[ApplianceVisibility], days: list[Saved], home: str) -> dict[str, float]:
    """Return how often somebody is right without noise, if a day was attacked as metered."""
    for day in days:
        with reading(day.path):
            if day.content["home"] == home and day.content["epsilon"] is None:
                found = {a["name"]: a["alpha"] for a in day.content["score"]["per_appliance"]}
                found |= day.content.get("best", {})
                if set(found) == {row.name for row in rows}:
                    return {row.name: max(found[row.name], row.guess) for row in rows}
    return {}


def _day(day: Saved, habits: dict[str, float]) -> list[Block]:
    """Show a day and what an attacker detected in it."""
    told = day.content
    sentences = [
        f"The attacker is right about the {a['name']} in {out_of_100(a['alpha'])} out of 100 "
        "moments. A guess without your data is right in "
        f"{out_of_100(max(a['floor'], habits.get(a['name'], 0.0)))}."
        for a in told["score"]["per_appliance"]
    ]
    source = embed_file(day.path.with_suffix(""))
    blocks: list[Block] = [Heading(told["title"])]
    if told["unit"] is not None:
        blocks.append(text(f"ε = {told['epsilon']:g} protects {told['unit']}.", role="key"))
    if source is not None:
        caption = (
            "The grey line is the meter. In the strips, blue is what was really on, green is what "
            f"the attacker ({told['attacker']}) detected of it, and red hatching marks mistakes."
        )
        blocks.append(
            Picture(source, f"The meter and what was detected: {told['title']}.", caption)
        )
    return [*blocks, Points(tuple(sentences))]


def _receipt(receipt: Saved) -> list[Block]:
    """Describe a receipt: the proved odds of the best possible attacker."""
    told = receipt.content
    promise = f"ε = {told['epsilon']:.3g}" + (f" (δ = {told['delta']:g})" if told["delta"] else "")
    lines = [f"Protected at {promise}: {told['unit']['sentence']}."]
    if told["kind"] == "simulation":
        lines.insert(0, "A simulation, not to be published.")
    head: tuple[str, ...] = ("appliance", "from one reading", "from one run", "from one day")
    spans: tuple[str, ...] = ("reading", "run", "day")
    if told["unit"]["span"] == "when":
        lines.insert(
            0, "Whether an appliance ran is not hidden: the sums of the days are published."
        )
        head, spans = ("appliance", "when it ran"), ("when",)
    rows: list[tuple[str | Cell, ...]] = [
        (f"{a['name']} ({a['watts']:g} W)", *(_promised(a[k]) for k in spans))
        for a in told.get("appliances", ())
    ]
    name = receipt.path.name.removesuffix(".receipt.json").removesuffix(".private.json")
    blocks: list[Block] = [
        Heading(f"What the release protects ({name})"),
        text(" ".join(lines), role="key"),
    ]
    if rows:
        caption = (
            "Proved: how many times out of 100 the best possible attacker is right about an "
            "appliance. A coin is right 50 times. The ε of the span, with "
            f"δ′ = {told['composition_delta']:g}, is below each number."
        )
        blocks += [make_table(caption, head, rows), text(PROVED, role="small")]
    return blocks


def _promised(entry: dict[str, Any] | None) -> Cell:
    """Return a cell with the proved odds and the composed ε."""
    if entry is None:
        return Cell("–", note="length is unknown")
    epsilon = min(entry["basic"], entry["pld"])
    odds = min(entry["odds"], 1 - 1e-12)
    return Cell(out_of_100(odds), shade(2 * odds - 1), f"ε = {number(epsilon)}")
