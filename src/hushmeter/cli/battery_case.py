"""A question about a battery, resolved: its promise, its sizes, what attackers see behind it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hushmeter.errors import DataError, InputError

if TYPE_CHECKING:
    from hushmeter.battery import Battery, Control, Operation
    from hushmeter.battery.guarantee import Guarantee
    from hushmeter.battery.sizing import Prices, Sizing
    from hushmeter.home import Home
    from hushmeter.noise.mechanism import Mechanism
    from hushmeter.privacy.units import Unit
    from hushmeter.read import ReadOptions
    from hushmeter.scoring import Score
    from hushmeter.trace import Trace

HOPELESS = 0.95
"""From this share of saturated horizons on, ε is not promised at all."""


@dataclass(frozen=True)
class BatteryCase:
    """What was asked, resolved."""

    home: Home
    load: Trace
    unit: Unit
    mechanism: Mechanism
    battery: Battery
    control: Control
    prices: Prices
    max_failure: float
    seed: int

    def guarantee(self, days: int, delta: float) -> Guarantee:
        """(ε, δ̂) over the horizon, simulated `days` times and bounded."""
        from hushmeter.battery.guarantee import assess_guarantee

        return assess_guarantee(
            self.mechanism,
            self.unit,
            self.battery,
            self.control,
            horizons=days,
            delta=delta,
            rng=self.seed,
        )

    def refuse_hopeless(self, found: Guarantee, mechanism: str, delta: float) -> None:
        """One sentence where the battery cannot keep ε: the size that would, or the ε it serves."""
        from hushmeter.battery.sizing import least_epsilon, size_battery

        if found.rate < HOPELESS:
            return
        need = size_battery(
            self.mechanism,
            self.unit,
            interval_s=self.battery.interval_s,
            horizon=found.horizon_s,
            max_failure=self.max_failure,
            efficiency=self.battery.efficiency,
            controller=self.control.name,
        )
        least = least_epsilon(
            self.unit,
            self.battery,
            self.control,
            max_failure=self.max_failure,
            mechanism=mechanism,
            delta=delta,
        )
        other = "" if least is None else f", and this one serves ε from {least:.3g} on"
        raise DataError(
            f"this battery fails its noise of ε = {self.mechanism.epsilon:.3g} in "
            f"{found.simulation.saturated} of {found.simulation.horizons} horizons; one of "
            f"{_size(need.capacity_kwh)} kWh and {_size(need.power_kw)} kW would keep failures "
            f"below {self.max_failure:g}{other} (--anyway shows what happens)."
        )

    def sizes(self, mechanism: str, delta: float) -> list[Sizing]:
        """Sizes that keep the promise at ε/4 … 4ε."""
        from hushmeter.battery.sizing import size_table

        middle = self.mechanism.epsilon
        if mechanism == "staircase":
            middle *= self.unit.touches
        wanted = [float(f"{middle * factor:.3g}") for factor in (0.25, 0.5, 1.0, 2.0, 4.0)]
        return size_table(
            self.unit,
            [e for e in wanted if e <= 20],
            mechanism=mechanism,
            delta=delta,
            interval_s=self.battery.interval_s,
            horizon=self.control.readings * self.battery.interval_s,
            max_failure=self.max_failure,
            efficiency=self.battery.efficiency,
            prices=self.prices,
        )

    def attack(self, done: Operation, attacker: str) -> tuple[Score, Score] | None:
        """What the attacker sees without and with the battery; None without truth."""
        from hushmeter.battery.exposure import attack_metered

        if self.load.states is None:
            return None
        before = attack_metered(self.load, self.load, self.home, attacker=attacker, seed=self.seed)
        after = attack_metered(
            self.load,
            done.metered,
            self.home,
            attacker=attacker,
            mechanism=self.mechanism,
            seed=self.seed,
        )
        return before, after


def load_house(file: Path, home: str, options: ReadOptions) -> tuple[Home, Trace]:
    """The home and the trace, with truth where the file has every appliance of the home."""
    from hushmeter.cli.parsing import parse_home
    from hushmeter.read import read_recording

    known, trace = parse_home(home), read_recording(file, options).trace
    told = trace.power is not None and set(known.names) <= set(trace.names or ())
    return known, known.label(trace) if told else trace


def fit_interval(store: Battery, acts: float | None, load: Trace) -> Battery:
    """The battery at the meter's interval; another one that was asked for is refused."""
    if acts is not None and abs(acts - load.interval_s) > 1e-9 * acts:
        raise InputError(
            f"the battery acts every {acts:g} s, but the meter reports every "
            f"{load.interval_s:g} s; leave --interval out or set --every {acts:g}s."
        )
    return replace(store, interval_s=load.interval_s)


def _size(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
