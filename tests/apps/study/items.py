"""Small results of every item, made once for all tests."""

from __future__ import annotations

from functools import cache

import pytest

from hushmeter.apps.study import figures
from hushmeter.apps.study.figures import ITEMS, ReproducedItem, Setting, appendices, reproduce
from hushmeter.apps.study.figures import attackers as figure_attackers

SMALL = Setting(seeds=2, readings=240)


@cache
def make_small_items() -> dict[str, ReproducedItem]:
    """Every item on its stand-in.

    Fig. 6 has all attackers but the network, which trains for minutes; Fig. 7 and 8 have few days
    and clusters, whose thirty panels take long to draw.
    """
    every = figure_attackers.contenders

    def fewer(home, *interval, **options):
        return tuple(one for one in every(home, *interval, **options) if one.name != "rnn")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure_attackers, "contenders", fewer)
        patch.setattr(figure_attackers, "CERTIFYING_RELEASES", 4)
        patch.setattr(figures, "TRAIN_DAYS", 1)
        patch.setattr(appendices, "DAYS", 300)
        patch.setattr(appendices, "CLUSTERS", 6)
        made = {item: reproduce(item, SMALL) for item in ITEMS}
        appendices._measure.cache_clear()
        figure_attackers.compare_building.cache_clear()
    return made
