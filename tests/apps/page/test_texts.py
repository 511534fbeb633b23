"""The page in other languages: no text is missing, and the server's sentences have a pattern."""

from __future__ import annotations

import re

import pytest

import hushmeter as hm
from hushmeter.advice.sentences import compare_promise
from hushmeter.apps.page.views import NO_NOISE, VERDICTS
from hushmeter.releases.purposes import WISHES
from hushmeter.threat import what_is_left
from hushmeter.trace import Metering
from tests.apps.page.chromium import open_example

LANGUAGES = ["de", "nl"]
ZONE = "Europe/Berlin"
TEXTS = """async (language) => {
  const flat = (branch, path) => Object.entries(branch).flatMap(([key, value]) => {
    const here = [...path, key];
    return typeof value === "string" ? [[JSON.stringify(here), value]] : flat(value, here);
  });
  return flat((await import(`/static/texts/${language}.js`)).default, []);
}"""
TOLD = """async (sentences) => {
  const { told } = await import("/static/texts.js");
  return sentences.map((sentence) => told(sentence));
}"""


@pytest.fixture
def texts(page, page_server):
    """A function that returns all texts of a language by their keys, those of the server apart."""
    page.goto(page_server)

    def load(language):
        found = dict(page.evaluate(TEXTS, language))
        server = {key: text for key, text in found.items() if key.startswith('["server",')}
        return {key: found[key] for key in found.keys() - server.keys()}, server

    return load


def names(text):
    return set(re.findall(r"\{(\w+)\}", text))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_every_text_with_the_same_values(texts, language):
    english, _ = texts("en")
    own, server = texts(language)
    assert own.keys() == english.keys()
    assert {key for key in own if names(own[key]) != names(english[key])} == set()
    assert {key for key, text in server.items() if names(text) != names(key)} == set()
    assert server.keys() == texts("de")[1].keys(), "all languages have the same patterns"


def promised():
    """What the server writes about promises of all wishes, and about their cost."""
    # One whole month, and incomplete days and months
    trace = hm.synth.household(50, interval_s=1800.0, zone=ZONE, seed=2).trace[5:]
    facts = hm.metered(trace, ZONE)
    rounded = hm.Metered(1800.0, Metering(50.0), ZONE, readings=len(trace), times=facts.times)
    wishes = [*WISHES[:-1], "that we are away 3 kW 5 kWh 2 days", "when we get up, kettle", "sauna"]
    wishes += ["kettle", "when we get up, which days we are away", "car charger 22 kW"]
    sentences = {*VERDICTS.values(), NO_NOISE}
    for wish in wishes:
        for meter in (facts, rounded):
            request = hm.Request(hide=wish).as_calendar(meter)
            promise = request.resolve(meter)
            sentences |= {*promise.sentences, *(guess.about for guess in promise.guesses)}
            sentences |= {*compare_promise(request, promise, meter, trace)}
    return sorted(sentences)


def found():
    """Statements about simulated homes, and what is left of them."""
    sentences = set()
    for seed, interval_s in enumerate((60.0, 900.0, 1800.0, 3600.0)):
        trace = hm.synth.household(30, interval_s=interval_s, zone=ZONE, seed=seed).trace
        shown = hm.findings(trace, tz=ZONE)
        sentences |= {one.sentence for one in shown.findings} | {*shown.withheld}
        facts = hm.metered(trace, ZONE)
        for wish in ("kettle", "evenings"):
            promise = hm.Request(hide=wish).as_calendar(facts).resolve(facts)
            left = what_is_left(trace, promise, releases=1, rng=seed)
            after = [re.sub(r"^(Gone|Uncertain|Still there)[.:] ", "", one.after) for one in left]
            sentences |= {text[0].upper() + text[1:] for text in after}
    return sorted(sentences)


@pytest.fixture(scope="module")
def sentences():
    return [*promised(), *found()]


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_sentences_of_the_server_are_translated(open_page, page_server, language, sentences):
    page = open_page(locale=language)
    open_example(page, page_server, epsilon=None)
    answers = page.evaluate(TOLD, sentences)
    english = [s for s, one in zip(sentences, answers, strict=True) if one["lang"] != language]
    assert english == []
    assert len(sentences) > 40
    # The numbers stay, with a decimal comma.
    for sentence, one in zip(sentences, answers, strict=True):
        wanted = re.findall(r"\d+(?:[.:]\d+)?", sentence)
        given = re.findall(r"\d+(?:[,:]\d+)?", one["text"])
        assert sorted(given) == sorted(number.replace(".", ",") for number in wanted)


def test_what_no_pattern_fits_stays_as_it_is(open_page, page_server):
    page = open_page(locale="de")
    open_example(page, page_server, epsilon=None)
    strange = ["This and that happened on 5.5 days.", "Hidden: nothing. And more."]
    assert page.evaluate(TOLD, strange) == [{"text": one, "lang": "en"} for one in strange]
