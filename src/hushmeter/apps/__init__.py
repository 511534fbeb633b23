"""Apps: everything that the core does not need. Each may be ignored, and all may be deleted.

An app imports the packages of the core, and nothing in the core imports an app: the core finds the
commands and attackers of the apps in these tables.
"""

COMMANDS = {
    "battery: make the noise physically": {"battery": "battery"},
    "price: what data are worth": {"price": "price"},
    "behaviour: daily profiles": {"cluster": "behaviour"},
    "fleet: many meters and their sums": {
        "fleet": "fleet", "fleet-sums": "fleet", "fleet-stats": "fleet", "synth-fleet": "fleet",
    },
    "ledger: budgets": {"ledger": "ledger"},
    "live: streams": {"live": "live"},
    "page: the browser": {"serve": "page"},
    "study: figures and reports": {
        "demo": "study", "sweep": "study", "reproduce": "study", "report": "study",
    },
    # The help of another command names it: `live`.
    None: {"replay": "live"},
}  # fmt: skip
"""The commands of every app, under its name; without one they are hidden."""

ATTACKERS = {
    "co": "combinatorial:CombinatorialOptimisation",
    "fhmm": "factorial_hmm:FactorialHmm",
    "sparse-hmm": "super_state_hmm:SuperStateHmm",
    "ip": "combinatorial:IntegerProgram",
    "alip": "combinatorial:AidedIntegerProgram",
    "rnn": "neural:RecurrentNet",
    "bayes": "bayes:Bayes",
    "trees": "trees:Trees",
    "strongest": "strongest:Strongest",
}
"""The attackers of the app nilm: name → module and class."""
