"""A battery that makes the noise (the paper's first adopter).

The meter sees y_t = x_t + b_t: the load plus what the battery charges. If b_t is private noise, no
reading that leaves the house is without it. Rounded to its own resolution g, the meter shows

    ⌊(x_t + n_t·g)/g + ½⌋·g = ⌊x_t/g + ½⌋·g + n_t·g,

exactly what the same mechanism would have released, as long as the battery can follow.

Why ε survives a controller
---------------------------
b_t depends on the noise and on the battery, never on the load.

*Upkeep.* Losses drain the battery although the noise has mean zero. A constant charge u makes up
for it; y = (x + u) + n is the same mechanism on a load moved by a public constant: ε is unchanged.

*Direct* and *lookahead* make b_t = n_t·g + u until the store would be left. Whether that happens
is decided by the noise alone, so ε holds but for the probability of that event
(`guarantee`).

*Reserved* draws the store back: b_t = (n_t − f_t)·g + u with f_t = round(pull·e_t/(g·h)), whole
steps. This is not post-processing of a release: noise that must come back reveals sums. For the
same output a load changed by d_1, d_2, … steps needs the noise n'_t with

    |n'_t − n_t| ≤ |d_t| + ⌊pull/η_d·Σ_{i<t} |d_i|⌋ + 1,

because e is a function of past b whose slope is at most h/η_d, and two roundings move by less than
one step more. A change of one reading is paid for at full size once and with the share pull/η_d in
each later reading of the horizon; its ε is the composition of those (`control_epsilon`). Gaussian
noise adds these up as squares and loses little, Laplace noise loses more.
"""

from hushmeter.battery.storage import (
    BASELINES,
    CONTROLLERS,
    Battery,
    Control,
    Operation,
    choose_control,
    control_grid,
    hide_load,
    operate,
    operate_noise,
)

__all__ = [
    "BASELINES",
    "CONTROLLERS",
    "Battery",
    "Control",
    "Operation",
    "choose_control",
    "control_grid",
    "hide_load",
    "operate",
    "operate_noise",
]
