"""Code that is loaded once, by the process from which the workers of the page are forked.

Importing the libraries and loading the compiled kernels takes seconds, so it is not left to each
worker.
"""

from __future__ import annotations

from hushmeter import synth
from hushmeter.web import planning, uploads, views  # noqa: F401
from hushmeter.web.attacks import DEFAULT, FitCache
from hushmeter.web.schemas import ViewRequest, to_model
from hushmeter.web.server import Settings
from hushmeter.web.sessions import Session, inspect_example


def load_kernels() -> None:
    """Attack a few synthetic readings with the default attacker, so that all code is loaded."""
    home = synth.home(n=3, seed=0)
    trace = synth.trace(home, 200, seed=0)
    session = Session("warm", inspect_example(trace), trace, home, trace, "itself")
    choices = {"trace": "warm", "home": to_model(home), "epsilon": 1.0, "attacker": DEFAULT}
    request = ViewRequest.model_validate(choices)
    views.make_view(request, session, FitCache(), Settings())


load_kernels()
