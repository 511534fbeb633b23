"""The battery's controllers: 1000 days of six-second readings, against drawing their noise."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness import Row, best_of
from hushmeter import Laplace
from hushmeter.apps.battery import CONTROLLERS, Battery, choose_control
from hushmeter.apps.battery.guarantee import simulate_saturation

DAYS, READINGS = 1000, 14_400
SECONDS = 5.0
MECHANISM = Laplace(1.0, 110.0)
BATTERY = Battery(0.3, 2.0)


def rows() -> Iterator[Row]:
    """Seconds per 1000 days, noise included, of every controller."""
    drawn = best_of(lambda: MECHANISM.sample(DAYS * READINGS, rng=0), 3)
    for name in CONTROLLERS:
        control = choose_control(name, READINGS)
        simulate_saturation(MECHANISM, BATTERY, control, horizons=2)
        taken = best_of(
            lambda control=control: simulate_saturation(MECHANISM, BATTERY, control, horizons=DAYS),
            3,
        )
        note = f"{taken:.2f} s, {DAYS * READINGS / taken / 1e6:.0f} M readings/s"
        yield Row(f"battery, {name}, 1000 days: time", taken, "one second", SECONDS, note, True)
        yield Row(f"battery, {name}, 1000 days: time", taken / drawn, "drawing its noise", None)
