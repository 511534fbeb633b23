"""What is each ε worth? A menu for those who pay households for data (the paper's third adopter).

For every ε of the menu the noise is known, and with it both sides of the trade:

    household   C(ε) = Σ_i w_i·v_i(ε),   v_i = 2·odds_i − 1     compensation a year
    buyer       W(ε) = V·q(ε)^k                                 willingness to pay a year
    together    S(ε) = W(ε) − C(ε) − handling                   surplus a year

odds_i is how often the best attacker, who finds on and off equally likely, names rightly whether
appliance i ran, over one run of its usual length; v_i is 0 for a coin and 1 for certainty. w_i is
what the household would ask for a year in which appliance i lies open. Paid C(ε), it is
indifferent. q is the buyer's use of the data, 0 … 1, V what perfect data is worth to him and k
how his value is curved. Both C and W rise with ε; the trade is worthwhile where S ≥ 0.

Noise is independent of the load, so its share of the buyer's errors is exact: with σ_h the
standard deviation of the noise of an hourly mean, the forecast "as in the same hour before" errs
by √(e₀² + σ_h²) where it erred by e₀ on true data, and the noisy hourly curve explains
Var/(Var + σ_h²) of its own variance. The share of days that stay in their cluster is simulated
(`clusters`).
"""

from hushmeter.price.menu import (
    EPSILONS,
    HARM,
    Buyer,
    Entry,
    Load,
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
