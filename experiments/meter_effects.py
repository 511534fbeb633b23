"""What a meter error and solar panels do to the accuracy of attackers.

The paper considers a pure load and a tolerance that covers the error of the meter. This study
attacks the same synthetic home behind an ideal meter, behind meters with an error of 5 %, and
behind a net meter with solar panels, whose generation is kept or removed first; with the readings
as they are and with noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from hushmeter.assumptions import remove_generation
from hushmeter.attack.registry import attackers
from hushmeter.checks import whole
from hushmeter.noise import Laplace
from hushmeter.scoring import score
from hushmeter.synth import add_meter_error, add_solar, ready_home
from hushmeter.synth import trace as draw_trace
from hushmeter.trace import Trace

if TYPE_CHECKING:
    import pandas as pd

HOME, INTERVAL_S, DAYS = "evening", 60.0, 7
ATTACKERS = ("hierarchical", "co", "sparse-hmm", "bayes")
METER_ERROR, SOLAR_W = 0.05, 4000.0
EPSILON, SENSITIVITY_W = 1.0, 100.0
"""The noise is Laplace noise of scale SENSITIVITY_W / EPSILON."""

METERS: dict[str, Callable[[Trace, int], Trace]] = {
    "ideal meter": lambda trace, _seed: trace,
    "5 % error, fixed": lambda trace, seed: add_meter_error(
        trace, METER_ERROR, per="trace", seed=seed
    ),
    "5 % error, each reading": lambda trace, seed: add_meter_error(trace, METER_ERROR, seed=seed),
    "solar panels": lambda trace, seed: add_solar(trace, SOLAR_W, seed=seed),
    "solar panels, removed": lambda trace, seed: add_solar(trace, SOLAR_W, seed=seed),
}
"""How each meter makes its readings from loads and a seed."""


def compare_meters(
    *, seeds: int = 3, seed: int = 0, note: Callable[[str], None] | None = None
) -> pd.DataFrame:
    """Measure the accuracy of attackers behind meters with an error and with generation."""
    import pandas as pd

    home, length = ready_home(HOME), round(DAYS * 86_400 / INTERVAL_S)
    training = draw_trace(home, length, interval_s=INTERVAL_S, seed=seed + 1000)
    fitted = {name: attackers[name](home).fit(training) for name in ATTACKERS}
    mechanism = Laplace(EPSILON, SENSITIVITY_W, grid=1.0)
    rows = []
    for number in range(seed, seed + whole("seeds", seeds)):
        if note is not None:
            note(f"week {number - seed + 1} of {seeds}")
        loads = draw_trace(home, length, interval_s=INTERVAL_S, seed=number)
        for meter, distort in METERS.items():
            metered = distort(loads, number)
            noisy = metered.replace_readings(mechanism.release(metered.readings, rng=number))
            for noise, seen in (("none", metered), (f"epsilon {EPSILON:g}", noisy)):
                shown = remove_generation(seen) if meter.endswith("removed") else seen
                for name, attacker in fitted.items():
                    informed = attacker.knows(None if seen is metered else mechanism)
                    found = score(informed.predict(shown, rng=number), loads)
                    rows.append((number, meter, noise, name, found.alpha, found.f1))
                rows.append((number, meter, noise, "all-off", found.alpha_floor, np.nan))
    return pd.DataFrame(rows, columns=["seed", "meter", "noise", "attacker", "alpha", "f1"])


def meters_markdown(table: pd.DataFrame) -> str:
    """Return the means over the weeks as Markdown: accuracy α and macro F1 of each attacker."""
    names = list(ATTACKERS)
    lines = [f"| meter | noise | {' | '.join(names)} |", "|---|---|" + "---|" * len(names)]
    for (meter, noise), part in table.groupby(["meter", "noise"], sort=False):
        means = part.groupby("attacker")[["alpha", "f1"]].mean().loc[names]
        pairs = zip(means.alpha, means.f1, strict=True)
        cells = " | ".join(f"{alpha:.3f} / {f1:.2f}" for alpha, f1 in pairs)
        lines.append(f"| {meter} | {str(noise).replace('epsilon', 'ε =')} | {cells} |")
    floor = table[table.attacker == "all-off"].alpha.mean()
    weeks = table.seed.nunique()
    return (
        "\n".join(lines)
        + f"\n\nAccuracy α / macro F1, means over {weeks} week{'' if weeks == 1 else 's'} of the "
        f"home “{HOME}” at {INTERVAL_S:g} s a reading. The answer “everything off” has "
        f"α {floor:.3f}.\n"
    )
