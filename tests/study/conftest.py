"""Small results of every item, made once."""

from __future__ import annotations

import pytest

from hushmeter.study.figures import ITEMS, Setting, reproduce, sources
from hushmeter.study.figures import appendices as behaviour_figures
from hushmeter.study.figures import attackers as figure_attackers

SMALL = Setting(seeds=2, readings=240)


@pytest.fixture(scope="session")
def small_items(tmp_path_factory):
    """Every item on its stand-in, and the folder they are saved in.

    Fig. 6 has all attackers but the network, which trains for minutes; Fig. 7 and 8 have few days
    and clusters, whose thirty panels take long to draw.
    """
    every = figure_attackers.contenders

    def fewer(home, **options):
        return tuple(one for one in every(home, **options) if one.name != "rnn")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure_attackers, "contenders", fewer)
        patch.setattr(sources, "TRAIN_DAYS", 1)
        patch.setattr(behaviour_figures, "DAYS", 300)
        patch.setattr(behaviour_figures, "CLUSTERS", 6)
        made = {item: reproduce(item, SMALL) for item in ITEMS}
        behaviour_figures._measure.cache_clear()
    folder = tmp_path_factory.mktemp("items")
    return made, {item: one.save(folder) for item, one in made.items()}, folder
