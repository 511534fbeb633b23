"""What headers mean: words of many languages, and the layouts of known sources.

The words are those of words.toml and the layouts those of layouts.toml, beside this module. The
rules here decide what a header with such words means.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from hushmeter.errors import DataError
from hushmeter.read.cells import Cells, Table

# Something per unit of energy (ct/kWh), and a power or an energy per unit of something (W/m²).
PRICE = re.compile(
    r"(?i)(?P<before>.*?)(?:(?P<slash>/)|(?<![^\W_])(?:per|pro|par|por|pr)(?![^\W_]))[.\s_]*"
    r"(?:1\s*)?[km]?wh?(?![^\W_])"
)
DENSITY = re.compile(r"(?i)wh?\s*(?:/|per|pro)\s*(?:m2|m²|m\^2|sqm|km|100)")
# A unit as a whole: kW, kWH, k W h, kW·h, kW/h, kilowatt-hours, Kilowattstunden, кВт·ч. "kWh/d" and
# "W/m2" are other units, and so are none that is known.
_HOURS = r"h(?:(?:ou)?r)?s?|std|ч|час\w*|год\w*"
_LONG_HOURS = r"uur|stunden?|heures?|or[ae]|horas?|timer?|tunti\w*"
UNIT = re.compile(
    r"(?i)(?:(?:(?<![^\W\d_])|(?-i:(?<=[a-jln-z])(?=[kKM]?W)))"
    r"(?P<prefix>milli|kilo|mega|[kmкм])?[-_. ]?"
    rf"(?:watts?|w|вт)(?:[\s_.·⋅∙•*×/-]{{0,3}}(?P<hours>{_HOURS}))?"
    rf"|(?P<long_prefix>kilo|mega)?[-_ ]?watt[-_ ]?(?P<long_hours>{_LONG_HOURS}|{_HOURS}))"
    r"(?![^\W_])(?P<per>\s*[/·⋅∙•*×]\s*(?!hh)(?=\w))?"
)
PREFIXES = {"к": "k", "м": "m", "kilo": "k", "mega": "m"}
# Registers of active energy or power: drawn (1) or fed in (2), now (7), counted (8), or of one
# interval (29); the last number is the tariff.
OBIS = re.compile(
    r"(?<![\d.])([12])(?:[.:_-]?(?=[78])|[.:_-](?=29[.:_-]))(7|8|29)[.:_-]?([0-4])(?!\d)"
)
RUN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")  # Japanese, Chinese, Korean
ANY_EXPORT = re.compile(r"(?i)\W*(?:data|daten|list)?\W*export\w*[\W\d]*(?:data|daten)?[\W\d]*")
GENERIC = ("generic", "import", "use", "total", "mains", "homes", "tariff", "phase", "counter")
COUNTED = re.compile(r"(?<!\d)0\d\d+")
LARGEST_AMPERES = 250.0
RAE_HOUSE_1_COLUMNS = 24


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


@cache
def load_words() -> dict[str, Any]:
    """The content of words.toml."""
    return _load("words.toml")


@cache
def missing_marks() -> frozenset[str]:
    """Texts that stand for a missing value, in lower case."""
    return frozenset(text.lower() for text in load_words()["missing"])


def is_missing(text: str) -> bool:
    """True for a mark or a sentence that stands for a missing value; "no use" is a value."""
    if text.lower() in missing_marks():
        return True
    plain = not (text[:1].isdigit() or any(c.isdigit() for c in text))
    return plain and has_word(text, "absence") and not has_word(text, "use", "import")


@cache
def _units(kind: str) -> dict[str, str]:
    """How units of electricity, of gas or of something else are written, with their names."""
    units = load_words()["units"][kind]
    named = units if isinstance(units, dict) else {kind: units}
    return {word: unit for unit, text in named.items() for word in text.split()}


@lru_cache(maxsize=4096)
def split_words(text: str) -> tuple[str, ...]:
    """Words of a header in lower case, without accents; CamelCase is split."""
    for old, new in (("ø", "o"), ("Ø", "O"), ("æ", "ae"), ("Æ", "AE"), ("ł", "l"), ("ß", "ss")):
        text = text.replace(old, new)
    # The directions of a meter: A+ or +A is drawn, A- or -A is fed in.
    text = re.sub(
        r"(?i)(?<!\w)([+-])[AP](?![^\W_])"
        r"|(?<![^\W_])(A|P|energy|power|energie|leistung) ?([+-])(?!\w)",
        lambda found: f"{found[2] or ''} a {'plus' if '+' in found[0] else 'minus'} ", text,
    )  # fmt: skip
    text = re.sub(r'(?<=\w)["\u05f4](?=\w)', "", text)
    # A serial number such as B7E2F8 must not be taken for the tariff E2.
    text = re.sub(r"(?<![A-Za-z0-9])(?=\d*[A-F])(?=[A-F]*\d)[0-9A-F]{6,}(?![A-Za-z0-9])", " ", text)
    plain = unicodedata.normalize("NFKD", _spaced(text))
    # Marks of other scripts, such as the voiced kana, are a part of the letter.
    plain = unicodedata.normalize("NFC", re.sub("[\u0300-\u036f]", "", plain)).lower()
    return tuple(re.findall(r"[^\W\d_]+\d*|\d+|[%€$£°]", plain.replace("³", "3")))


def _unit_word(found: re.Match[str]) -> str:
    """A unit as one word, such as kwh; a blank for a unit per something."""
    if found["per"]:
        return " / "
    prefix = found["prefix"] or found["long_prefix"] or ""
    # mW is a milliwatt, but mw and MW are a megawatt.
    small = prefix == "m" and found[0].lstrip()[1:].lstrip("-_. ").startswith("W")
    prefix = "milli" if small else PREFIXES.get(prefix.lower(), prefix.lower())
    return f" {prefix}w{'h' if found['hours'] or found['long_hours'] else ''} "


def _spaced(text: str) -> str:
    """A text whose CamelCase is split, and in which a unit is one word."""
    text = re.sub(r"([kM])W", r"\1w", UNIT.sub(_unit_word, text))
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)


def has_word(text: str, *lists: str) -> bool:
    """Return True if the text has a word of these lists of words.toml."""
    return _pattern(lists).search(" ".join(split_words(text))) is not None


@cache
def _pattern(lists: tuple[str, ...]) -> re.Pattern[str]:
    return _any_of(" ".join(load_words()["words"][name] for name in lists))


def _any_of(words: str) -> re.Pattern[str]:
    """A pattern of the words of a list; see words.toml for its marks."""
    # Scripts without blanks between words write them in one run.
    marked = (f"*{word}*" if RUN.fullmatch(word) else word for word in words.split())
    parts = [
        r"\S*" * word.startswith("*") + re.escape(word.strip("*").replace("_", " "))
        + (r"\S*" if word.endswith("*") else r"\d*") for word in marked
    ]  # fmt: skip
    return re.compile(rf"(?<!\S)(?:{'|'.join(parts)})(?!\S)")


@cache
def _periods() -> dict[int, re.Pattern[str]]:
    return {int(seconds): _any_of(words) for seconds, words in load_words()["periods"].items()}


@cache
def weekday() -> str:
    """A pattern of the name of a day of the week and the blank behind it."""
    return rf"(?i:(?:{'|'.join(load_words()['weekdays'].split())})\.?,?\s+)"


@cache
def months() -> dict[str, int]:
    """Numbers of the months by the beginnings of their names."""
    return {name: i for i, names in enumerate(load_words()["months"], 1) for name in names.split()}


@lru_cache(maxsize=4096)
def find_unit(text: str) -> str | None:
    """The electric unit in a header, such as "Usage (kWh)" → kWh; None if it has not just one."""
    units = _units("electric")
    found = {units[word] for word in split_words(text) if word in units}
    return found.pop() if len(found) == 1 else None


def names_energy(name: str) -> bool:
    """True for a name of energy or consumption, such as Stromverbrauch; a load may be a power."""
    return has_word(name, "use", "energy_names") and not has_word(name, "power_names", "loads")


def has_other_unit(text: str) -> bool:
    """Return True if the text has a unit of something else, such as m³ or EUR."""
    return find_unit(text) is None and _has_unit(text, "other")


def _has_unit(text: str, kind: str) -> bool:
    return not _units(kind).keys().isdisjoint(split_words(text))


def find_source(text: str) -> str | None:
    """Return "gas", "water" or "heat" if the text names one of them."""
    electric = find_unit(text) is not None
    # The electric circuit of a water heater is not a water meter.
    heater = electric or has_word(text, "heaters")
    for source in ("gas",) if heater else ("gas", "water", "heat"):
        if has_word(text, source):
            return source
    if not electric and _has_unit(text, "gas"):
        return "gas or water"
    return None


@dataclass(frozen=True)
class Meaning:
    """What the header of a column of numbers says."""

    # import, use, net, export, production, battery, price, other (a quantity that is not electric
    # energy or power), or "" if the header does not say
    flow: str
    unit: str | None  # Electric unit
    counter: bool  # True if the header names a register
    part: str  # tariff, phase, total or ""
    mains: bool  # True if the header names the mains of a home
    generic: bool  # True if the header is a general word such as value or power
    period: int  # The length that the header names [s], such as 3600 for "hourly"; 0 if none


@lru_cache(maxsize=4096)
def read_meaning(name: str, context: str = "") -> Meaning:
    """The meaning of a column, from its name and from further header rows above it."""
    text = f"{context} {name}".strip()
    unit = find_unit(name) or find_unit(context)
    obis = OBIS.search(name)
    generic = _is_generic(name)
    flow = _flow(text, unit, obis)
    # A word of use outranks the number of a register.
    counter = has_word(text, "counter") or (
        obis is not None and obis[2] == "8" and not has_word(text, "use")
    )
    # Databases sample a counter by its first or last value in an interval.
    counter |= bool(unit) and re.search(r"[._ ](first|last)(_value)?$", name.lower()) is not None
    joined = " ".join(split_words(name))
    return Meaning(
        "use" if flow == "" and generic and has_word(name, "homes") else flow,
        unit,
        counter,
        _part(name, obis) or _part(context, None),
        has_word(name, "mains") or (generic and has_word(name, "homes")),
        generic,
        next((length for length, words in _periods().items() if words.search(joined)), 0),
    )


def _is_generic(name: str) -> bool:
    """True if a name has general words alone, and none such as the name of a circuit."""
    units = _units("electric")
    words = (w for w in split_words(name) if w not in units and not w.isdigit() and len(w) > 1)
    return all(has_word(word, *GENERIC) for word in words)


def is_general_title(line: str) -> bool:
    """True for a line of nothing but words of directions and general words: Energia oddana 2024."""
    lists = (*GENERIC, "export", "production", "weak_production")
    return all(word.isdigit() or has_word(word, *lists) for word in split_words(line))


def is_price(text: str) -> bool:
    """True for something per unit of energy: ct/kWh, NOK_per_kWh. "Usage/kWh" is an energy."""
    found = PRICE.match(_spaced(text))
    if found is None:
        return has_word(text, "prices")
    before = found["before"]
    return not (found["slash"] and has_word(before, *GENERIC) and _is_generic(before))


def _flow(text: str, unit: str | None, obis: re.Match[str] | None) -> str:
    """Direction or quantity of a column; all others are looked for before the home's use."""
    # What was billed is money, unless it is the use.
    paid = has_word(text, "cost") or (has_word(text, "billed") and not has_word(text, "use"))
    if is_price(text) or (unit is None and paid and not has_word(text, "circuits")):
        return "price"
    if find_source(text) or DENSITY.search(text) or (unit is None and has_other_unit(text)):
        return "other"
    circuit = has_word(text, "circuits")
    for flow in ("export", "battery", "production"):
        if has_word(text, flow) or (not circuit and has_word(text, f"weak_{flow}")):
            return flow
    # In Dutch, "het net" is the grid.
    if has_word(text, "net") and not has_word(text, "dutch_grid"):
        return "net"
    if has_word(text, "peak", "own_use", "reactive") or _is_extreme(split_words(text)):
        return "other"
    if unit is None and (has_word(text, "other") or _is_ampere(text)):
        return "other"
    if has_word(text, "import"):
        return "import"
    if has_word(text, "use"):
        return "use"
    return "" if obis is None else {"1": "import", "2": "export"}[obis[1]]


def states_feed_in(title: str) -> bool:
    """True for a title of feed-in or production.

    "Export of the consumption" or "Use and feed-in" states what was drawn too.
    """
    drawn = has_word(title, "use", "import") or ANY_EXPORT.fullmatch(title)
    return read_meaning(title).flow in ("export", "production") and not drawn


def _is_ampere(text: str) -> bool:
    """True for a current; "current usage" is the use of now."""
    return has_word(text, "weak_other") and not has_word(text, "use", "import", "generic")


def find_parts(named: Mapping[str, Meaning]) -> tuple[str, ...] | None:
    """Which of several series of one direction are added up to the meter; None if it is unclear.

    A total stands for its parts, and so does the only series that names no part. Without one, all
    phases or all tariffs are added. A register that no other includes is always added.
    """
    if len(named) == 1:
        return tuple(named)
    kinds = {name: meaning.part for name, meaning in named.items()}
    split = {name for name, kind in kinds.items() if kind in ("tariff", "phase")}
    totals = [name for name, kind in kinds.items() if kind == "total"]
    mains = [name for name, meaning in named.items() if meaning.mains]
    separate = [name for name in named if has_word(name, "separate") and name not in totals]
    parts = [name for name in named if name not in totals]
    if len(totals) == 1 and all(n in split or is_part_of(n, totals[0]) for n in parts):
        return tuple(totals)
    if mains and len(mains) < len(named):
        return find_parts({name: named[name] for name in mains})
    if separate and len(separate) < len(named):
        rest = find_parts({name: named[name] for name in named if name not in separate})
        return None if rest is None else (*rest, *separate)
    if len(split) == len(named) and len({kinds[name] for name in split}) == 1:
        alike = set(kinds.values()) == {"phase"} or len(set(map(_stem, named))) == 1
        return tuple(named) if alike else None
    whole = [name for name in named if name not in split]
    one = len(whole) == 1 and whole[0] not in totals and named[whole[0]].generic
    return tuple(whole) if one else None


def is_part_of(name: str, total: str) -> bool:
    """True for a name that adds a word to what the total is called: consoHaut and consoTotal."""
    whole = {word for word in split_words(total) if not has_word(word, "total")}
    more = set(split_words(name)) - whole
    general = all(has_word(word, *GENERIC) or word.isdigit() for word in more)
    return bool(whole) and whole < set(split_words(name)) and not general


def _stem(name: str) -> str:
    """A name without its tariff: columns to be added differ in nothing else."""
    kept = [w for w in split_words(name) if not has_word(w, *GENERIC) and not w.isdigit()]
    return " ".join(kept)


def _is_extreme(words: tuple[str, ...]) -> bool:
    """True for a largest or smallest value; "15 min" is a length of time."""
    return any(
        word in ("max", "min") and not (i and words[i - 1].isdigit())
        for i, word in enumerate(words)
    )


def _part(name: str, obis: re.Match[str] | None) -> str:
    if has_word(name, "phase") or re.search(r"[(_\s-][ABC]\)?(?:\s*\(|$)", name):
        return "phase"
    if has_word(name, "total") or (obis is not None and obis[3] == "0" and obis[2] == "8"):
        return "total"
    # A number with zeros before it counts meters or clients, and no tariffs: MT_001.
    if (has_word(name, "tariff") and not COUNTED.search(name)) or (
        obis is not None and obis[2] == "8"
    ):
        return "tariff"
    return ""


@dataclass(frozen=True)
class Layout:
    """A known layout; the names of columns are in lower case."""

    format: str  # Name of the format
    needs: frozenset[str]  # Columns by which the layout is recognised
    time: str  # Column of the times
    values: tuple[str, ...]  # Columns that are added up to the reading of the meter
    unit: str | None = None  # Unit of the values; None if the file or the user states it
    end: str | None = None  # Column of the end of the interval
    # Whether times name the start or the end of an interval; "after" for a counter that is read
    # an interval after the time beside it
    stamp: str = "start"
    counter: bool = False  # True if the values are those of a counter
    step: float | None = None  # Step of the counter or the readings, in `unit`
    tz: str | None = None  # Zone of times that carry none
    meter: str | None = None  # Column that tells homes or meters apart
    # Column → beginnings of the values (lower case) whose rows are read
    keep: dict[str, tuple[str, ...]] = field(default_factory=dict)
    # True if the other columns of numbers are circuits, except those in `ignore`
    circuits: bool = False
    ignore: frozenset[str] = frozenset()
    country: str = ""  # Where the source is used, for the documentation
    # True if the source writes a row for every interval, so that a row is missing only where the
    # meter or its connection failed
    regular: bool = True
    # True if the layout was checked on a real file, False if only on a made-up one
    verified: bool = False
    refuse: str = ""  # Why files of this layout are not read
    note: str = ""  # A sentence about every file
    column_notes: dict[str, str] = field(default_factory=dict)  # Sentences about some columns
    names: dict[str, str] = field(default_factory=dict)  # Names of circuits by their columns
    # Name of a circuit → columns that are added up
    poles: dict[str, tuple[str, ...]] = field(default_factory=dict)
    prepare: str = ""  # The function of `PREPARATIONS` for what only this format needs

    def prepared(self, table: Table, notes: list[str]) -> Table:
        """The table with the names and units of this layout; sentences are added to `notes`."""
        if self.refuse:
            raise DataError(self.refuse)
        if self.prepare:
            table = PREPARATIONS[self.prepare](table, self, notes)
        present = {name.lower() for name in table}
        notes.extend(text for name, text in self.column_notes.items() if name in present)
        notes.extend([self.note] if self.note else [])
        named = {name: self.names.get(name.lower(), name) for name in table}
        return {name if named[name] in table else named[name]: table[name] for name in table}


@cache
def load_layouts() -> tuple[Layout, ...]:
    """The layouts of layouts.toml, in their order."""
    return tuple(
        _layout(**{**stated, **variant})
        for stated in _load("layouts.toml")["layout"]
        for variant in stated.pop("variants", [{}])
    )


def _layout(**stated: Any) -> Layout:
    for name in ("needs", "ignore"):
        stated[name] = frozenset(stated.get(name, ()))
    for name in ("keep", "poles"):
        stated[name] = {key: tuple(texts) for key, texts in stated.get(name, {}).items()}
    return Layout(**{**stated, "values": tuple(stated["values"])})


def find_layout(columns: frozenset[str]) -> Layout | None:
    """The first layout whose columns are all present."""
    return next((layout for layout in load_layouts() if layout.needs <= columns), None)


def _refuse_amperes(table: Table, layout: Layout, _: list[str]) -> Table:
    """Refuse the file of amperes of AMPds, which has the same columns as that of watts."""
    mains = next(table[name] for name in table if name.lower() == layout.values[0])
    if mains.kind in "iuf" and mains.good.any():
        largest = np.nanmax(mains.floats())
        if largest < LARGEST_AMPERES:
            raise DataError(
                f"an AMPds file whose mains never pass {largest:g}: these are amperes "
                "(Electricity_I); give Electricity_P, in watts."
            )
    return table


def _add_poles(table: Table, layout: Layout, notes: list[str]) -> Table:
    """Name the sub-meters of house 1 of RAE and add the two poles of 240 V loads."""
    # The first releases number the sub-meters 1 … 24, the later ones write sub1 … sub24.
    table = {f"sub{name}" if name.isdigit() and f"sub{name}" not in table else name: cells
             for name, cells in table.items()}  # fmt: skip
    subs = [name for name in table if name.startswith("sub")]
    needed = {pole for poles in layout.poles.values() for pole in poles}
    if len(subs) != RAE_HOUSE_1_COLUMNS or not needed <= set(subs):
        notes.append(f"{len(subs)} sub-meters: not house 1, so no poles were added.")
        return table
    for name, poles in layout.poles.items():
        total = sum(table.pop(pole).floats() for pole in poles)
        table[name] = Cells.of(np.asarray(total))
    pairs = [f"{n} = {' + '.join(poles)}" for n, poles in layout.poles.items() if len(poles) > 1]
    notes.append(f"Two poles were added: {', '.join(pairs)}.")
    return table


def _kilowatts_of_sub_meters(table: Table, layout: Layout, _: list[str]) -> Table:
    """Convert the sub-meters of UCI from Wh per minute to kW, the unit of its meter."""
    return {name: Cells.of(cells.floats() / (1000 / 60)) if name.lower() in layout.names
            else cells for name, cells in table.items()}  # fmt: skip


PREPARATIONS: dict[str, Callable[[Table, Layout, list[str]], Table]] = {
    "add_poles": _add_poles,
    "kilowatts_of_sub_meters": _kilowatts_of_sub_meters,
    "refuse_amperes": _refuse_amperes,
}
