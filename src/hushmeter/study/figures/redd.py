"""REDD's building 1 as Fig. 6 attacks it: trained on before 2011-04-30, attacked after."""

from __future__ import annotations

import numpy as np

from hushmeter import synth
from hushmeter.home import Home
from hushmeter.learn.homes import LearntHome, between, learn_home
from hushmeter.learn.thresholds import on_states, readings_in
from hushmeter.study.figures.setting import Setting
from hushmeter.study.figures.sources import STAND_IN, Source, missing, read_segment, span_words
from hushmeter.study.plan import Case
from hushmeter.trace import Trace

EVERY_S = 60.0
CUT = "2011-04-30"
LOADS = 7
PAPER_TOLERANCE_W = 20.0
TRAIN_DAYS = 7


def find_building(setting: Setting) -> Source:
    """Building 1 at 1 min with its seven largest loads, or the stand-in “redd-like”."""
    trace = read_segment("redd1", setting.data)
    return _stand_in(setting) if trace is None else _real(setting, trace)


def with_real_mains(source: Source, setting: Setting) -> Case:
    """The same minutes and loads, with the metered mains as the meter."""
    trace = read_segment("redd1", setting.data)
    assert trace is not None
    before, after = _halves(trace, setting)
    learnt = learn_home(before, appliances=source.case.home.names, name=source.case.home.name)
    test = label_circuits(after, learnt)
    home = _as_in_the_paper(learnt.home)
    return Case(f"{source.name}, real mains", home, learnt.trace, test)


def _real(setting: Setting, trace: Trace) -> Source:
    before, after = _halves(trace, setting)
    loads = busiest_circuits(before, learn_home(before, denoised=True), LOADS)
    learnt = learn_home(before, denoised=True, appliances=loads, name="REDD building 1")
    labelled = label_circuits(after, learnt)
    assert labelled.power is not None
    test = labelled.replace_readings(labelled.power.sum(axis=1))
    home = _as_in_the_paper(learnt.home)
    words = (
        f"REDD building 1, means over {EVERY_S:g} s, the {LOADS} loads that used most energy "
        f"before {CUT} ({', '.join(home.names)}) and their sum as the meter; trained on "
        f"{span_words(learnt.trace)}, attacked on {span_words(test)}; powers, levels and "
        "thresholds learnt from the training part alone"
    )
    return Source(Case(home.name, home, learnt.trace, test), home.name, words, real=True)


def _halves(trace: Trace, setting: Setting) -> tuple[Trace, Trace]:
    """Before and after the cut, at the interval of the figure."""
    minutes = trace.coarsen(EVERY_S)
    before, after = between(minutes, None, CUT), between(minutes, CUT, None)
    return before, after if setting.readings is None else after[: setting.readings]


def _as_in_the_paper(home: Home) -> Home:
    """With δ = 20 W, which the paper gives for this home: noise of scale 10/ε W."""
    return Home(home.appliances, PAPER_TOLERANCE_W, home.base_load, home.name)


def _stand_in(setting: Setting) -> Source:
    home = synth.ready_home("redd-like")
    week = round(TRAIN_DAYS * 86_400 / EVERY_S)
    trace = synth.trace(
        home, week + setting.stand_in_readings, interval_s=EVERY_S, seed=setting.seed
    )
    train, test = trace[:week], trace[week:]
    words = (
        f"{STAND_IN} “redd-like” ({len(home)} appliances; trained on {span_words(train)}, "
        f"attacked on {span_words(test)})"
    )
    return Source(Case(home.name, home, train, test), home.name, words + missing(setting), False)


def busiest_circuits(trace: Trace, learnt: LearntHome, count: int) -> list[str]:
    """The circuits that switch and use most energy, in the order of the data."""
    assert trace.power is not None
    assert trace.names is not None
    switching = {circuit.name for circuit in learnt.circuits if circuit.role == "appliance"}
    energy = dict(zip(trace.names, trace.power.mean(axis=0), strict=True))
    chosen = sorted(switching, key=lambda name: (-energy[name], name))[:count]
    return [name for name in trace.names if name in chosen]


def label_circuits(trace: Trace, learnt: LearntHome) -> Trace:
    """A later trace with the truth of the learnt home's appliances, by the thresholds learnt."""
    assert trace.power is not None
    assert trace.names is not None
    names, rule = learnt.home.names, learnt.rule
    power = trace.power[:, [trace.names.index(name) for name in names]]
    thresholds = {circuit.name: circuit.threshold for circuit in learnt.circuits}
    states = [
        on_states(
            np.ascontiguousarray(column),
            thresholds[name],
            trace.run_starts,
            min_on=readings_in(rule.min_on_s, trace.interval_s),
            min_off=readings_in(rule.min_off_s, trace.interval_s),
        )
        for name, column in zip(names, power.T, strict=True)
    ]
    return trace.with_truth(np.stack(states, axis=1), power, names)
