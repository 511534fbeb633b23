"""The price of each ε: a menu for buyers of household data (the paper's third adopter).

For every ε of the menu the noise is known, and it determines both sides of the trade:

    household   C(ε) = Σ_i w_i·v_i(ε),   v_i = 2·odds_i − 1     compensation a year
    buyer       W(ε) = V·q(ε)^k                                 willingness to pay a year
    together    S(ε) = W(ε) − C(ε) − handling                   surplus a year

odds_i is the probability that the best attacker, for whom on and off are equally likely, is right
about one run of appliance i; v_i is 0 for a random guess and 1 for certainty. w_i is what the
household asks for a year in which everything about appliance i is known. With the payment C(ε) the
household is indifferent. q is the quality of the data for the buyer's use, 0 to 1; V is the value
of perfect data to the buyer, and k describes how the value depends on the quality. C and W rise
with ε; the trade is worthwhile where S ≥ 0.

The noise is independent of the load, so its part of the buyer's errors is exact. Let σ_h be the
standard deviation of the noise of an hourly mean. The hourly curve has the quality
1 − σ_h²/Var, and a forecast its skill against the mean (`load.Forecast`); both are 0 for data that
are not better than none. The share of days that stay in their cluster is simulated (`load`). If
the load is known only from a release, its statistics and all that depends on them have standard
errors.
"""

from hushmeter.price.load import Load
from hushmeter.price.menu import (
    EPSILONS,
    HARM,
    Buyer,
    Entry,
    Menu,
    price_menu,
    rescale,
    tell_menu,
    vary_menu,
)

__all__ = [
    "EPSILONS",
    "HARM",
    "Buyer",
    "Entry",
    "Load",
    "Menu",
    "price_menu",
    "rescale",
    "tell_menu",
    "vary_menu",
]
