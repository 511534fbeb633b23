"""The price of protection: a menu for buyers of household data (the paper's third adopter).

A wish of the household (what to hide, and how often the best attacker may be right about it) or an
ε fixes the noise, and the noise determines both sides of the trade:

    household   C = Σ_i w_i·v_i,   v_i = 2·odds_i − 1     compensation a year
    buyer       W = V·q^k                                 willingness to pay a year
    together    S = W − C − handling                      surplus a year

odds_i is the probability that the best attacker, for whom on and off are equally likely, is right
about one run of appliance i; v_i is 0 for a random guess and 1 for certainty. w_i is what the
household asks for a year in which everything about appliance i is known. With the payment C the
household is indifferent. q is the quality of the data for the buyer's use, 0 to 1; V is the value
of perfect data to the buyer, and k describes how the value depends on the quality. C and W rise
with the odds; the trade is worthwhile where S ≥ 0.

Every quality is a skill: 0 for data that are not better than none. Without data the buyer knows the
mean of the load, or the most common cluster of its days. Numbers with the standard error σ of the
release and the standard deviation s in the load have the quality 1 − σ²/s²; a forecast has its
skill against the mean (`load.Forecast`). The share of days that stay in their cluster is simulated
(`load`). If the load is known only from a release, its statistics and all that depends on them have
standard errors.
"""

from typing import TYPE_CHECKING

from hushmeter.parts import names_when_used

if TYPE_CHECKING:
    from hushmeter.apps.price.load import Load
    from hushmeter.apps.price.menu import (
        EPSILONS,
        HARM,
        ODDS,
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
    "ODDS",
    "Buyer",
    "Entry",
    "Load",
    "Menu",
    "price_menu",
    "rescale",
    "tell_menu",
    "vary_menu",
]

# Nothing is imported before it is used, so that the help of the commands is fast.
__getattr__ = names_when_used(
    __name__,
    {
        "apps.price.load": "Load",
        "apps.price.menu": "EPSILONS HARM ODDS Buyer Entry Menu price_menu rescale tell_menu "
        "vary_menu",
    },
)
