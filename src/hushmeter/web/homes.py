"""Homes as JSON and back."""

from __future__ import annotations

from hushmeter.home import Appliance, Home
from hushmeter.web.requests import ApplianceModel, HomeModel


def to_home(model: HomeModel) -> Home:
    """The home behind its JSON; what is wrong is said in one sentence."""
    appliances = [
        Appliance(a.name, a.watts, tuple(a.levels), a.run_s, a.runs_per_day)  # type: ignore[arg-type]
        for a in model.appliances
    ]
    return Home(appliances, model.tolerance, model.base_load, model.name)


def to_model(home: Home) -> HomeModel:
    """A home as JSON; limits of a request do not apply to it."""
    appliances = [
        ApplianceModel.model_construct(
            name=a.name,
            watts=a.power,
            levels=list(a.levels),
            run_s=a.run_s,
            runs_per_day=a.runs_per_day,
        )
        for a in home.appliances
    ]
    return HomeModel.model_construct(
        name=home.name,
        tolerance=home.tolerance,
        base_load=home.base_load,
        appliances=appliances,
    )
