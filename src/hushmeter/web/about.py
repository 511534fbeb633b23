"""What a server offers: attackers, noise, units of protection and examples, with their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hushmeter import __version__
from hushmeter.advice.planner import RESOLUTIONS_S
from hushmeter.attack.registry import attackers
from hushmeter.noise.mechanism import MAX_EPSILON
from hushmeter.web import answers
from hushmeter.web.examples import LABELS
from hushmeter.web.training import DEFAULT, live_attackers

if TYPE_CHECKING:
    from hushmeter.web.settings import Settings

ATTACKER_LABELS = {
    "bayes": "Bayes, told the noise",
    "one-shot": "One-shot (P3)",
    "multi-shot": "Multi-shot (Algorithm 1)",
    "hierarchical": "Hierarchical (Algorithm 2)",
    "co": "Combinatorial optimisation",
    "fhmm": "Factorial HMM",
    "sparse-hmm": "Sparse-HMM",
    "ip": "Integer program",
    "alip": "Aided linear integer program",
    "all-off": "Says everything is off",
    "hold": "Says all stays as at the first reading",
}
MECHANISM_LABELS = {
    "laplace": "Laplace",
    "staircase": "Staircase",
    "gaussian": "Gaussian (δ = 1e-6)",
}
UNIT_LABELS = {
    ("appliance", "reading"): "one appliance in one reading",
    ("appliance", "run"): "one appliance over one run",
    ("appliance", "day"): "one appliance over one day",
    ("fluctuation", "reading"): "fluctuations within a state in one reading, not switches",
}


def describe_server(settings: Settings) -> answers.About:
    """What can be chosen, and what is accepted."""
    return answers.About(
        version=__version__,
        attackers=[
            answers.AttackerAbout(
                name=name,
                label=ATTACKER_LABELS.get(name, name),
                summary=f"Needs {attackers[name].needs}; assumes {attackers[name].assumes}.",
                default=name == DEFAULT,
            )
            for name in live_attackers()
        ],
        mechanisms=[answers.Named(name=n, label=label) for n, label in MECHANISM_LABELS.items()],
        units=[
            answers.UnitAbout(protect=protect, span=span, label=label)
            for (protect, span), label in UNIT_LABELS.items()
        ],
        examples=[answers.Named(name=name, label=label) for name, label in LABELS.items()],
        resolutions_s=[float(every) for every in RESOLUTIONS_S],
        limits=answers.Limits(
            upload_bytes=settings.upload_bytes,
            unpacked_bytes=settings.unpacked_bytes,
            readings=settings.readings,
            view_readings=settings.view_readings,
            appliances=settings.appliances,
            max_epsilon=MAX_EPSILON,
            request_s=settings.request_s,
        ),
    )
