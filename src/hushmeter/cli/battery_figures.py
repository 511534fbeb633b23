"""The files that `hushmeter battery -o` writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from hushmeter.battery import Control, Operation
    from hushmeter.battery.sizing import Sizing
    from hushmeter.home import Home
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.scoring import Score

NAMES = ("battery", "controllers", "exposure", "sizing")

Picture = tuple["Figure", dict[str, Any]]


def refuse_figures(folder: Path, force: bool) -> None:
    """Before any long work: refuse a folder that already holds these figures."""
    from hushmeter.files import refuse_overwrite

    for name in NAMES:
        refuse_overwrite(folder / f"{name}.png", force)


def draw_battery(
    folder: Path,
    home: Home,
    done: Operation,
    mechanism: Mechanism,
    control: Control,
    scores: tuple[Score, Score] | None,
    table: Sequence[Sizing],
    *,
    attacker: str,
    seed: int,
    force: bool,
) -> list[str]:
    """Draw and write the figures; those of attackers need a trace with truth."""
    from hushmeter.plot.figure import save_figure

    pictures = {"battery": _operation(done, scores), "sizing": _sizing(table)}
    if scores is not None:
        pictures["controllers"] = _controllers(home, done, mechanism, control, attacker, seed)
        pictures["exposure"] = _exposure(home, done, mechanism, control, scores, attacker, seed)
    files: list[Path] = []
    for name, (figure, data) in pictures.items():
        files += save_figure(figure, folder, name, data, force=force).values()
    return [str(path) for path in files]


def _operation(done: Operation, scores: tuple[Score, Score] | None) -> Picture:
    from hushmeter.plot.battery import draw_operation

    store = done.battery
    title = f"A battery of {store.capacity_kwh:g} kWh and {store.power_kw:g} kW, {done.controller}"
    data = {
        "timestamp": done.load.times,
        "load_w": done.load.readings,
        "metered_w": done.metered.readings,
        "battery_w": done.battery_w,
        "noise_w": done.noise_w,
        "state_of_charge": done.state_of_charge,
        "saturated": done.saturated.astype("int8"),
    }
    return draw_operation(done, title, scores), data


def _sizing(table: Sequence[Sizing]) -> Picture:
    from hushmeter.plot.battery import draw_sizing

    failure = table[0].max_failure if table else 0.0
    columns = ("controller", "epsilon", "scale_w", "capacity_kwh", "power_kw")
    data: dict[str, Any] = {name: [getattr(row, name) for row in table] for name in columns}
    for name in ("loss_kwh", "cycles", "life_years", "cost"):
        data[f"{name}_a_year" if name != "life_years" else name] = [
            getattr(row.year, name) for row in table
        ]
    return draw_sizing(table, f"Size for a failure of at most {failure:g} in the horizon"), data


def _controllers(
    home: Home, done: Operation, mechanism: Mechanism, control: Control, attacker: str, seed: int
) -> Picture:
    from hushmeter.battery.exposure import (
        attack_metered,
        compare_controllers,
        mean_visibility,
    )
    from hushmeter.plot.battery import draw_controllers

    runs = compare_controllers(done.load, done.battery, mechanism, control, seed=seed)
    seen = {
        name: mean_visibility(
            attack_metered(
                done.load, run.metered, home, attacker=attacker, mechanism=mechanism, seed=seed
            )
        )
        for name, run in runs.items()
    }
    data = {
        "controller": list(runs),
        "visibility": list(seen.values()),
        "cut_share": [float(run.saturated.mean()) for run in runs.values()],
        "loss_kwh": [run.loss_kwh for run in runs.values()],
        "cycles": [run.cycles for run in runs.values()],
    }
    title = f"The same battery and load under every controller, seen by {attacker}"
    return draw_controllers(runs, seen, title), data


def _exposure(
    home: Home,
    done: Operation,
    mechanism: Mechanism,
    control: Control,
    scores: tuple[Score, Score],
    attacker: str,
    seed: int,
) -> Picture:
    import numpy as np

    from hushmeter.battery.exposure import mean_visibility, sweep_capacity
    from hushmeter.plot.battery import draw_exposure

    spread = mechanism.std * done.battery.hours / 1000
    widest = 12 * spread * np.sqrt(control.readings)
    capacities = [float(c) for c in np.geomspace(spread / 2, widest, 12)]
    sweep = sweep_capacity(
        done.load,
        home,
        done.battery,
        mechanism,
        control,
        capacities,
        attacker=attacker,
        seed=seed,
    )
    names = ("capacity_kwh", "rate", "bound", "cut_share", "visibility")
    data = {name: [getattr(point, name) for point in sweep] for name in names}
    title = f"A battery that is too small is seen through ({attacker})"
    without = mean_visibility(scores[0])
    return draw_exposure(sweep, without, title, done.battery.capacity_kwh), data
