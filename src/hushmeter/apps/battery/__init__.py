"""A home battery that puts the noise on the meter (the paper's first adopter).

The meter measures y_t = x_t + b_t: the load plus the charging power of the battery. If b_t is the
noise of a private mechanism, every reading that leaves the house contains this noise. A meter of
resolution g shows

    ⌊(x_t + n_t·g)/g + ½⌋·g = ⌊x_t/g + ½⌋·g + n_t·g,

which is exactly what the same mechanism would have released, as long as the battery can follow.

Why ε holds under every controller
----------------------------------
b_t depends on the noise and on the battery, never on the load.

*Upkeep.* Losses drain the battery although the noise has mean zero. A constant charging power u
compensates them. y = (x + u) + n is the same mechanism on a load that is shifted by a public
constant, so ε does not change.

*Direct* and *lookahead* set b_t = n_t·g + u until the battery would be full or empty. Whether this
happens depends on the noise alone, so ε holds except with the probability of this event
(`guarantee`).

*Reserved* pulls the stored energy back towards its start: b_t = (n_t − f_t)·g + u with
f_t = round(pull·e_t/(g·h)) whole steps. This is not post-processing of a release, because noise
that must return to its start reveals sums of readings. For the same output, a load that is changed
by d_1, d_2, … steps needs the noise n'_t with

    |n'_t − n_t| ≤ |d_t| + ⌊pull/η_d·Σ_{i<t} |d_i|⌋ + 1,

because e is a function of the past b whose slope is at most h/η_d, and two roundings add less than
one step. A change of one reading therefore costs its full size once and the share pull/η_d in each
later reading of the horizon; its ε is the composition of these losses (`control_epsilon`). Gaussian
noise adds them as squares and loses little, Laplace noise loses more.
"""

from typing import TYPE_CHECKING

from hushmeter.parts import names_when_used

if TYPE_CHECKING:
    from hushmeter.apps.battery.battery import (
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

# Nothing is imported before it is used, so that the help of the commands is fast.
__getattr__ = names_when_used(
    __name__,
    {
        "apps.battery.battery": "BASELINES CONTROLLERS Battery Control Operation choose_control "
        "control_grid hide_load operate operate_noise",
    },
)
