"""The battery that makes the noise and the price of every ε (the paper's adopters 1 and 3)."""

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
    make_table,
    text,
)
from hushmeter.report.collect import Results, Saved, reading
from hushmeter.report.pictures import embed_file

BATTERY_LEAD = (
    "A battery behind the meter draws and returns the noise, so that the utility never holds the "
    "true readings. ε holds only while the battery can follow; δ̂ says how often it cannot."
)
PRICE_LEAD = (
    "What each ε is worth: to the buyer, who learns less as ε falls, and to the household, which "
    "gives up less. Money is per year and household, in one currency."
)
FIGURES = {
    "battery": "The load and what the meter showed, the charge, and what an attacker saw.",
    "exposure": "A battery that is too small is seen through: δ̂ and visibility by capacity.",
    "controllers": "Every controller on the same load and noise.",
    "sizing": "Capacity, power and cost a year against ε.",
}
MENU_LINES = 12


def tell_battery(results: Results) -> Section | None:
    """The section, or None without a run of `hushmeter battery`."""
    blocks: list[Block] = []
    for saved in results.batteries:
        with reading(saved.path):
            blocks += _tell_battery(saved, results.batteries)
    return Section("battery", "The battery", BATTERY_LEAD, tuple(blocks)) if blocks else None


def tell_price(results: Results) -> Section | None:
    """The section, or None without a menu of `hushmeter price`."""
    blocks: list[Block] = []
    for saved in results.prices:
        with reading(saved.path):
            blocks += _tell_price(saved)
    return Section("price", "The price", PRICE_LEAD, tuple(blocks)) if blocks else None


def _tell_battery(saved: Saved, all_saved: list[Saved]) -> list[Block]:
    told = saved.content
    store, found = told["battery"], told["guarantee"]
    name = f"{store['capacity_kwh']:g} kWh, {store['power_kw']:g} kW, {told['control']['name']}"
    if len(all_saved) > 1:
        name += f" ({saved.path.parent.name})"
    pictures = [
        Picture(source, f"{caption} Battery of {name}.", caption)
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
        f"Sizes that fail in at most {failure:g} of horizons of {short_duration(horizon_s)}, "
        "proved; "
        "what a year loses, wears and costs."
    )
    head = (
        "controller",
        Cell("ε", note="over the horizon"),
        "noise",
        "kWh",
        "kW",
        "lost kWh",
        "cycles",
        "cost",
    )
    return make_table(caption, head, rows)


def _tell_price(saved: Saved) -> list[Block]:
    told = saved.content
    lines = told["menu"]
    step = -(-len(lines) // MENU_LINES)
    shown = [e for i, e in enumerate(lines) if i % step == 0 or e == told["best"]]
    rows = [_menu_row(entry, entry == told["best"]) for entry in shown]
    caption = (
        "The menu: error of the buyer’s hourly forecast, share of the hourly curve that is true "
        "and of days that stay in their cluster, how often of 100 the most exposed appliance is "
        "told from a reading and from a run, and money a year. Shaded: the best ε."
    )
    head = (
        "ε",
        "forecast error",
        "hours true %",
        "days kept %",
        "from a reading",
        "from a run",
        "household asks",
        "buyer pays",
        "surplus",
    )
    blocks: list[Block] = [
        Heading(f"A menu for {told['mechanism']} noise"),
        text(f"ε protects {told['unit']}.", role="key"),
        Points(tuple(s for s in told["sentences"] if not s.startswith("Assumed: "))),
    ]
    source = embed_file(saved.path.with_suffix(""))
    if source is not None:
        caption_ = "Money against ε, what either side gets for it, and how the best ε moves."
        blocks.append(Picture(source, caption_, caption_))
    return [
        *blocks,
        make_table(caption, head, rows),
        _sensitivity_table(told["sensitivity"]),
        _assumed(told["assumptions"]),
    ]


def _menu_row(entry: dict[str, Any], best: bool) -> list[str | Cell]:
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
    rows = []
    for name, other in moved.items():
        low, high = other["worthwhile"] or (None, None)
        edges = ("–" if edge is None else f"{edge:.3g}" for edge in (low, high))
        rows.append((name, f"{other['best_epsilon']:.3g}", f"{other['surplus']:.2f}", *edges))
    head = ("if", "best ε", "surplus", "worthwhile from ε", "to ε")
    return make_table("How the answer moves with what it rests on", head, rows)


def _assumed(lines: list[str]) -> Text:
    return text(*(f"Assumed: {line}" for line in lines), role="small")
