"""The privacy ledger: what every meter has spent, kept so that it cannot be overspent.

A spend is committed before anything is released: a crash may cost budget, never privacy. Each
(meter, period, stream) is spent once; the same release with the same input resumes for nothing.
The ledger charges ⌈ε·10⁶⌉ micro-ε per row, where ε protects one unit of protection (one reading,
one day) of that meter within that period; a sum over periods protects one such unit in each of
them at once. Units differ between releases: a sum over several is a bound for the weakest.

Where it lies::

    sqlite:///file.db        relative to the working folder; one machine, writers take turns
    sqlite:////data/file.db  absolute
    postgresql://…           several machines, writers meet only where they share meters

Rooms: `batch` checks what is asked, `budget` decides, `writes` has the transactions, `views` what
is shown, `chain` the hashes, `verify` replays them, `schema` has the tables, `store` the SQL,
`sqlite` and `postgres` the databases; `book` joins them.
"""

from hushmeter.fleet.ledger.batch import Charge, SpendOutcome
from hushmeter.fleet.ledger.book import Ledger, open_ledger
from hushmeter.fleet.ledger.budget import Cap, Refusal, micro_epsilon
from hushmeter.fleet.ledger.chain import Head
from hushmeter.fleet.ledger.views import Balance, Spend

__all__ = [
    "Balance",
    "Cap",
    "Charge",
    "Head",
    "Ledger",
    "Refusal",
    "Spend",
    "SpendOutcome",
    "micro_epsilon",
    "open_ledger",
]
