"""Code that is loaded once, by the process from which the workers of the page are forked.

Importing the libraries and loading the compiled kernels takes seconds, so it is not left to each
worker. This process reads no file of a stranger, so that it may save the kernels that it compiles.
"""

from __future__ import annotations

from contextlib import suppress

from hushmeter import synth
from hushmeter.apps.page import api  # noqa: F401
from hushmeter.apps.page.attacks import NOT_LIVE, attack_view
from hushmeter.apps.page.schemas import AttackRequest, to_model
from hushmeter.apps.page.server import Session, Settings, inspect_example
from hushmeter.apps.page.views import make_view
from hushmeter.attack.registry import BUILT_IN


def load_kernels() -> None:
    """Attack a few synthetic readings with each attacker of the page, so that all is loaded."""
    home = synth.home(n=3, seed=0)
    trace = synth.trace(home, 200, seed=0)
    session = Session("warm", inspect_example(trace), trace, home, trace, "itself")
    for name in BUILT_IN:
        if name not in NOT_LIVE:
            choices = {"trace": "warm", "home": to_model(home), "epsilon": 1.0, "attacker": name}
            request = AttackRequest.model_validate(choices)
            attack_view(request, session, Settings())
    make_view(request, session, Settings())
    # A few readings are too short for the trees of `strongest`, and the extra may be absent.
    with suppress(ImportError):
        import lightgbm  # noqa: F401


load_kernels()
