"""The sections about the battery that makes the noise and about the price of every ε.

They belong to the adopters 1 and 3 of the paper.
"""

from __future__ import annotations

from typing import Any

from hushmeter.formatting import format_watts, out_of_100, short_duration
from hushmeter.report.blocks import (
    Block,
    Cell,
    Heading,
    Picture,
    Points,
    Section,
    Text,
    embed_file,
    make_table,
    text,
)
from hushmeter.report.collect import Results, Saved, reading

BATTERY_LEAD = (
    "A battery behind the meter produces the noise, so that the utility never gets the true "
    "readings. ε holds only while the battery can follow the noise; δ̂ is the probability that it "
    "cannot."
)
PRICE_LEAD = (
    "This part shows what each ε is worth to the buyer of the data, who learns less from a "
    "smaller ε, and to the household, which reveals less. Money is per year and household, in "
    "one currency."
)
FIGURES = {
    "battery": "The load, the metered power, the charge of the battery, and the visibility.",
    "exposure": "A battery that is too small does not hide the load: δ̂ and visibility by capacity.",
    "controllers": "All controllers on the same load and noise.",
    "sizing": "Capacity, power and yearly cost against ε.",
}
MENU_LINES = 12


def tell_battery(results: Results) -> Section | None:
    """Write the section about batteries."""
    blocks: list[Block] = []
    for saved in results.batteries:
        with reading(saved.path):
            blocks += _tell_battery(saved, results.batteries)
    return Section("battery", "The battery", BATTERY_LEAD, tuple(blocks)) if blocks else None


def tell_price(results: Results) -> Section | None:
    """Write the section about prices."""
    blocks: list[Block] = []
    for saved in results.prices:
        with reading(saved.path):
            blocks += _tell_price(saved)
    return Section("price", "The price", PRICE_LEAD, tuple(blocks)) if blocks else None


def _tell_battery(saved: Saved, all_saved: list[Saved]) -> list[Block]:
    """Describe one battery."""
    told = saved.content
    store, found = told["battery"], told["guarantee"]
    name = f"{store['capacity_kwh']:g} kWh, {store['power_kw']:g} kW, {told['control']['name']}"
    if len(all_saved) > 1:
        name += f" ({saved.path.parent.name})"
    pictures = [
        Picture(source, f"{caption} The battery is {name}.", caption)
        for stem, caption in FIGURES.items()
        if (source := embed_file(saved.path.with_name(stem))) is not None
    ]
    return [
        Heading(name),
        text(f"ε protects {told['unit']}.", role="key"),
        Points(tuple(told["sentences"])),
        *pictures[:1],
        _sizing_table(told, found["horizon_s"]),
        *pictures[1:],
        _assumed(told["assumptions"]),
    ]


def _sizing_table(told: dict[str, Any], horizon_s: float) -> Block:
    """Return the table of sufficient sizes."""
    rows = [
        (
            row["controller"],
            f"{row['epsilon']:.3g}",
            format_watts(row["scale_w"]),
            f"{row['capacity_kwh']:.3g}",
            f"{row['power_kw']:.3g}",
            f"{row['year']['loss_kwh']:.0f}",
            f"{row['year']['cycles']:.0f}",
            f"{row['year']['cost']:.0f}",
        )
        for row in told["sizing"]
    ]
    failure = told["sizing"][0]["max_failure"]
    caption = (
        "Sizes that are proved to be sufficient: the battery fails to follow the noise in a "
        f"share of at most {failure:g} of all periods of {short_duration(horizon_s)}. The last "
        "columns are for one year."
    )
    head = (
        "controller",
        Cell("ε", note="over the whole period"),
        "noise",
        "kWh",
        "kW",
        "losses [kWh]",
        "cycles",
        "cost",
    )
    return make_table(caption, head, rows)


def _tell_price(saved: Saved) -> list[Block]:
    """Describe one menu of prices."""
    told = saved.content
    lines = told["menu"]
    step = -(-len(lines) // MENU_LINES)
    shown = [e for i, e in enumerate(lines) if i % step == 0 or e == told["best"]]
    rows = [_menu_row(entry, entry == told["best"]) for entry in shown]
    caption = (
        "The menu: error of the buyer’s hourly forecast, share of the hourly curve that is true, "
        "share of days that stay in their cluster, how many times out of 100 the best possible "
        "attacker is right about the most exposed appliance from a reading and from a run, and "
        "money per year. The row of the best ε is shaded."
    )
    head = (
        "ε",
        "forecast error",
        "true hourly curve [%]",
        "days in their cluster [%]",
        "from a reading",
        "from a run",
        "the household asks",
        "the buyer pays",
        "surplus",
    )
    blocks: list[Block] = [
        Heading(f"A menu for {told['mechanism']} noise"),
        text(f"ε protects {told['unit']}.", role="key"),
        Points(tuple(s for s in told["sentences"] if not s.startswith("Assumed: "))),
    ]
    source = embed_file(saved.path.with_suffix(""))
    if source is not None:
        caption_ = (
            "Money against ε, what each side gets for it, and how the best ε depends on the terms."
        )
        blocks.append(Picture(source, caption_, caption_))
    return [
        *blocks,
        make_table(caption, head, rows),
        _sensitivity_table(told["sensitivity"]),
        _assumed(told["assumptions"]),
    ]


def _menu_row(entry: dict[str, Any], best: bool) -> list[str | Cell]:
    """Return one row of the menu."""
    mark = 3 if best else 0
    odds = min((1 + max(entry["visibility"])) / 2, 1 - 1e-12)
    words = (
        f"{entry['epsilon']:.3g}" + (" (best)" if best else ""),
        format_watts(entry["forecast_w"]),
        f"{100 * entry['fidelity']:.1f}",
        "–" if entry["clusters"] is None else f"{100 * entry['clusters']:.1f}",
        out_of_100(max(entry["accuracy"])),
        out_of_100(odds),
        f"{entry['compensation']:.2f}",
        f"{entry['willingness']:.2f}",
        f"{entry['surplus']:.2f}",
    )
    return [Cell(word, mark) for word in words]


def _sensitivity_table(moved: dict[str, Any]) -> Block:
    """Return the table of the best ε under changed terms."""
    rows = []
    for name, other in moved.items():
        low, high = other["worthwhile"] or (None, None)
        edges = ("–" if edge is None else f"{edge:.3g}" for edge in (low, high))
        rows.append((name, f"{other['best_epsilon']:.3g}", f"{other['surplus']:.2f}", *edges))
    head = ("changed term", "best ε", "surplus", "worthwhile from ε", "to ε")
    return make_table("How the answer changes with the terms", head, rows)


def _assumed(lines: list[str]) -> Text:
    """Return the assumptions in small print."""
    return text(*(f"Assumed: {line}" for line in lines), role="small")
