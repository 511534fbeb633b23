"""The privacy ledger: a record of what every meter has spent, which cannot be overspent.

A spend is committed before anything is released, so a crash may cost budget but never privacy.
Each (meter, period, stream) is spent once. The same release with the same input resumes without
a further charge. A ledger declares once which change of a customer's day it protects, and charges
the (ε, δ) of that change, whatever the unit of protection of a release is, and adds up both.

The ledger is a URL::

    sqlite:///file.db        a file relative to the working folder, for one machine
    sqlite:////data/file.db  a file with an absolute path
    postgresql://…           a database that several machines share

Modules: `ledger` has the class `Ledger`; `charges` has the change that a ledger protects and what a
period costs; `spending` decides what fits under the caps and has the work inside each write;
`chain` has the hash chain and its verification; `store` has the tables and the SQL that both
`databases` share.
"""

from typing import TYPE_CHECKING

from hushmeter.parts import names_when_used

if TYPE_CHECKING:
    from hushmeter.apps.ledger.chain import Head
    from hushmeter.apps.ledger.charges import Cap, DayChange, Price, micro_epsilon, period_price
    from hushmeter.apps.ledger.ledger import Balance, Ledger, Spend, open_ledger
    from hushmeter.apps.ledger.spending import Charge, Refusal, SpendOutcome

__all__ = [
    "Balance",
    "Cap",
    "Charge",
    "DayChange",
    "Head",
    "Ledger",
    "Price",
    "Refusal",
    "Spend",
    "SpendOutcome",
    "micro_epsilon",
    "open_ledger",
    "period_price",
]

# Nothing is imported before it is used, so that the help of the commands is fast.
__getattr__ = names_when_used(
    __name__,
    {
        "apps.ledger.chain": "Head",
        "apps.ledger.charges": "Cap DayChange Price micro_epsilon period_price",
        "apps.ledger.ledger": "Balance Ledger Spend open_ledger",
        "apps.ledger.spending": "Charge Refusal SpendOutcome",
    },
)
