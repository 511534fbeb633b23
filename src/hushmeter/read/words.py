"""What the words of a header mean: units, directions, tariffs, registers, in twelve languages.

A header is split into words without accents ("Volume prélevé (kWh)" → volume, preleve, kwh). Every
word list holds beginnings of words in English, Dutch, German, French, Spanish, Portuguese, Italian,
Danish and Finnish, with some Swedish, Norwegian, Polish and Czech. A beginning that ends in "$"
matches the whole word only.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

ELECTRIC_WORDS = {
    "W": "w watt watts",
    "kW": "kw kwatt kwatts kilowatt kilowatts",
    "MW": "mw megawatt megawatts",
    "Wh": "wh whs watthour watthours",
    "kWh": "kwh kwhs kilowatthour kilowatthours kilowattuur kilowattstunden kilowattstunde",
    "MWh": "mwh mwhs megawatthour megawatthours",
}
ELECTRIC_UNITS = {word: unit for unit, text in ELECTRIC_WORDS.items() for word in text.split()}
OTHER_UNITS_WORDS = (
    "$ % amp ampere amperes amps aud btu cad ccf cent cents chf ct czk degc dkk dl eur euro "
    "euros ft3 ft³ gal gallon gallons gbp gj hl hpa hz kg kva kvah kvar kvarh liter liters "
    "litre litres lux m3 ma mbar mbtu mj mvarh m³ nok ohm pln ppm rpm sek therm therms usd va "
    "vah var varh vars volt volts £ ° °c €"
)
OTHER_UNITS = frozenset(OTHER_UNITS_WORDS.split())
GAS_UNITS_WORDS = (
    "btu ccf dl ft3 ft³ gal gallon gallons hl liter liters litre litres m3 mbtu m³ therm therms"
)
GAS_UNITS = frozenset(GAS_UNITS_WORDS.split())
GAS = "gas$ gaz$ gasverbr gasuse gasusage gass$ kaasu plyn metano naturgas erdgas aardgas therm"
WATER = "water wasser eau$ agua acqua vand$ vandforbrug vesi$ vatten voda woda warmwater"
HEAT = "warmte$ fernwarme fjernvarme chaleur kaukolampo teplo$ district stadsverwarming"
COST = (
    "cost price pris$ priser preis prijs kosten prix cout costo coste precio preco custo hinta "
    "bill$ tax vat$ btw$ mwst fee$ fees$ epex spot ttf tariefprijs charges charge$ rate$ belob "
    "kostnad importe factura rechnung facture euro eur$ usd gbp savings saving revenue money "
    "umsatz co2 carbon emission omkostning kustann kosten$ betrag montant bedrag importo"
)
OTHER = (
    "temp humid press wind cloud dew visib precip rain snow sun$ irradi bearing weather volt "
    "spannung tension tensione spanning intensit current$ ampere ampel stroomsterkte "
    "stromstarke amps frequen hz$ factor facteur faktor pf$ reactiv reaktiv reatt reativ blind "
    "inductiv capacitiv kvar varh apparent aparente schein lat$ latitude longitude lon$ rssi "
    "signal quality kvalitet kvaliteit qualitat qualite calidad laatu count$ pulse puls$ pulses "
    "aantal percent ratio self autoconsum autoconsommation eigenverb eigenbedarf issues index$ "
    "row$ week weekday month$ year$ holiday season timeperiod tariefcode outside buiten aussen "
    "occupancy people area size azimuth elevation hpa icon summary"
)
EXPORT = (
    "export injec injet inject invoed feedin feed teruglever teruggelever terug retour return "
    "einspeis eingespeist ruckspeis lieferung surplus immiss immess inyec verti exced exporta "
    "received receive sold verkauf vendu vendid solgt salg overskud togrid gelvr gelev out$ "
    "outflow whout oddan dodavka leveret rendu reinject sortant injetada sobra verkocht utmat "
    "prodana esport geexport vienti viety syott cedut eingesp inmat verkoop innspeis naarnet "
    "afgegeven rucklief ruecklief ruckliefer ret$ energyout abgabe netzeinsp avgiven leverans"
)
PRODUCTION = (
    "produc produk produz solar sol$ pv$ pv1 pv2 photovol fotovol generat gen$ gener yield "
    "opwek erzeug ertrag inverter wechselr omvormer ondul tuotanto surplusgeneration gg$ dc$ "
    "dcms panel zonne sunny tripower vyrob wytwor anlage produi prodot tuotett geproduc erzeugt "
    "opgewekt eigenerz selbsterz"
)
BATTERY = (
    "battery powerwall charged discharg charging accu$ batter akku bateria batt$ storage "
    "speicher laden$ entladen soc$"
)
NET = "net$ netto nette neta netta saldo balance minus bilan bilanz nett$"
IMPORT = (
    "import afname levering$ geleverd purchas bought offtake bezug bezogen netzbezug soutir "
    "preliev prelev preleve prelief entnahme delivered$ withdraw kobt koebt ostettu otto$ "
    "fromgrid grid$ inflow whin uttag achat achet compra acquist gekauft pobran pobor odber "
    "ingekocht importada geimport tuonti tuotu aftag prelevement prelevee soutiree importe "
    "innkjop entnommen"
)
USE = (
    "consum conso$ consommation usage use$ used$ verbr verbruik verbrauch forbrug forbruk "
    "forbrukning kulutus demand load$ zuzycie spotreb strom$ stroom elforbrug gc$ consom kulut "
    "brug$ verbrukt gebruik usado utiliz strøm strom"
)
HOMES = "home$ house$ household haushalt hogar casa$ koti$ main$ principal grid$"
COUNTER = (
    "register meterstand meterstanden stand$ standen$ zahlerstand zaehlerstand stander cumul "
    "kumul teller$ counter odczyt malerstand maalerstand reading1 reading2 lukema$ "
    "mittarilukema lectura lettura leitura releve totalizer totaliser zaehler$ contador$ "
    "meterreading cumulative running"
)
PEAK = "maximum maximal maxi$ minimum peakpower maxpower piekvermogen minimal maximeter"
TARIFF = (
    "tarif tariff tariefe laag laagtarief low hoog hoogtarief high dal$ daltarief normaal "
    "normaaltarief piek peak offpeak shoulder day$ night$ dag$ nacht$ tag$ jour$ nuit$ hp$ hc$ "
    "ht$ nt$ hph$ hch$ hpb$ hcb$ pleines creuses punta$ llano$ valle$ vazio cheias ponta t1$ "
    "t2$ t3$ t4$ f1$ f2$ f3$ p1$ p2$ p3$ p4$ p5$ p6$ 181$ 182$ rate1 rate2 rate$ noche dia$ "
    "notte giorno yo$ paiva e1$ e2$ cl$"
)
PHASE = "l1$ l2$ l3$ phase phsa phsb phsc leg1 leg2 fase phasea phaseb phasec"
TOTAL = (
    "total totaal totale gesamt sum$ summe somme suma soma samlet yhteensa overall whole all$ "
    "celkem razem insgesamt"
)
MAINS = "mains aggregate whole overall site$ whe$ hovedmaler hauptz hoofdmeter"
GENERIC_VALUES = (
    "value wert valeur waarde valor valore vaerdi arvo volume amount$ maengde maarra maara "
    "quantity quantit cantidad menge energy energie energia energi power potencia puissance "
    "leistung vermogen potenza effekt teho watts watt w$ kw$ kwh$ wh$ reading read aktiv active "
    "activa attiva ativa electric elektri elec$ el$ in$ per$ hh$ half$ of$ real registad "
    "registr global today this$ meter$ me$ interval period kwhhh min$ minute hour$ uur$ first$ "
    "last$ hourly daily quarter kvart grid$ from$ the$ avg$ mean$ average"
)
STARTS = (
    "start begin van$ vanaf von$ ab$ debut desde inicio dalle da$ fra$ from alku inizio od$ "
    "beginn datumvan startdatum inizi"
)
ENDS = (
    "end$ ends ending until till$ tot$ bis$ ende fin$ hasta fim$ ate$ fine$ alle$ til$ to$ slut "
    "loppu paattyen do$ einde stop endtime enddate finish"
)
DATES = (
    "date datum dato fecha data$ giorno jour$ dia$ paiva pvm day$ tag$ dag$ usagedate datetime "
    "dzien datafrom"
)
CLOCKS = (
    "time zeit uhr heure hora ora$ tid$ klok aika kello tijd hour stunde uur$ clock godzina "
    "cas$ hr$ horaire horodate"
)
NUMBERS_OF_DAY = (
    "hour hora stunde uur$ ora$ heure time$ period interval quarter kwartier viertel hh$ "
    "settlement slot he$ hr$ tunti godzina cas$"
)
STAMPS = (
    "time timestamp datetime date unix epoch ts$ moment utc horodate zeit datum tijd fecha hora "
    "tid aika dato giorno dattim"
)
VALUES = "value wert waarde valeur valor valore usage consum verbr amount quantity menge"
# Words that are also those of values: their numbers are times if they are as large as times.
WEAK_STAMPS = "read last$ data$ local interval alku start from$ begin"
OTHER_TIMES = "revis updat creat modif invoic settle expor receiv publish due$ last$ download"
ZONES = "timezone tz$ zone$ tidszone zeitzone fuseau zona"
UNITS = "unit units uom eenheid einheit unite unidad unita unidade enhed maleenhed yksikko jednost"
METERS = (
    "meter$ meters meternu meterid meterno mprn mpan ean esiid nmi cups pod$ prm pdl$ serial "
    "account konto customer kunde client household house$ home$ homeid dataid lclid device "
    "malepunkt maalepunkt maler$ mittauspiste zahlpunkt zahler messpunkt messlok contador "
    "contat compteur gsrn id$ location site premise service$ point punto plant acorn user$ "
    "metering"
)
REGISTERS = (
    "register direction richting richtung retning type$ typ$ tipo kind$ art$ kategorie category "
    "conscat tyyppi tuotte code$ "
    "channel kanal canal kanaal obis series suffix fuel commodity product medium "
    "utility surplusgeneration consumption flow tariff tarief tarif stream energytype name$ "
    "naam$ nom$ nombre phase fase quantity measure magnitud parameter variable entity grandeur "
    "datatype"
)
REMARKS = (
    "quality qualit kvalit status note comment remark omschr bemerk descri beschreib estim "
    "actual flag valid herkunft origen origin source$ method metodo obten laatu message issue "
    "address street city postcode zip$ plant geschat gemessen firmware revision tou$ stdor icon "
    "summary weather"
)
INVERTERS = "inverter wechselrichter omvormer onduleur inversor sunny tripower dcms"
# A price of energy, such as EUR/MWh or ct per kWh.
PRICE = re.compile(
    r"(?i)(?:eur|euro|€|usd|\$|gbp|£|chf|dkk|sek|nok|pln|czk|ct|cents?|pence|p|öre|øre|ore|snt)"
    r"\s*(?:/|per|pro|pr)\s*[km]?wh"
)
SOURCES = {"gas": GAS, "water": WATER, "heat": HEAT}


@lru_cache(maxsize=4096)
def split_words(text: str) -> tuple[str, ...]:
    """Words of a header in lower case, without accents; CamelCase is split."""
    text = re.sub(r"(?i)kilo ?watt[-_ ]?(hours?|uur|stunden?)", "kwh", text)
    text = re.sub(r"(?i)watt[-_ ]?hours?", "wh", text)
    text = text.replace("ø", "o").replace("Ø", "O").replace("æ", "ae").replace("Æ", "AE")
    text = text.replace("ł", "l").replace("ß", "ss")
    text = re.sub(r"(?<![A-Za-z])([kM])W", r"\1w", text)
    # A serial number such as B7E2F8 must not be taken for the tariff E2.
    text = re.sub(r"(?<![A-Za-z0-9])(?=\d*[A-F])(?=[A-F]*\d)[0-9A-F]{6,}(?![A-Za-z0-9])", " ", text)
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    plain = unicodedata.normalize("NFKD", text)
    plain = "".join(c for c in plain if not unicodedata.combining(c)).lower()
    return tuple(re.findall(r"[a-z]+\d*|\d+|[%€$£°]", plain.replace("³", "3")))


def has_word(text: str, beginnings: str) -> bool:
    """Return True if a word of the text begins as one of `beginnings` does."""
    pattern = _pattern(beginnings)
    return any(pattern.match(word) for word in split_words(text))


@lru_cache(maxsize=256)
def _pattern(beginnings: str) -> re.Pattern[str]:
    parts = [re.escape(b[:-1]) + "$" if b.endswith("$") else re.escape(b)
             for b in beginnings.split()]  # fmt: skip
    return re.compile("|".join(parts))


@lru_cache(maxsize=4096)
def find_unit(text: str) -> str | None:
    """The electric unit in a header, such as "Usage (kWh)" → kWh; None if it has none."""
    words = split_words(text)
    return next((ELECTRIC_UNITS[word] for word in reversed(words) if word in ELECTRIC_UNITS), None)


def has_other_unit(text: str) -> bool:
    """Return True if the text has a unit of something else, such as m³ or EUR."""
    return find_unit(text) is None and any(word in OTHER_UNITS for word in split_words(text))


def find_source(text: str) -> str | None:
    """Return "gas", "water" or "heat" if the text names one of them."""
    electric = find_unit(text) is not None
    for source, beginnings in SOURCES.items():
        # The electric circuit of a water heater is no water meter.
        if has_word(text, beginnings) and (source == "gas" or not (electric or _heats(text))):
            return source
    if not electric and any(word in GAS_UNITS for word in split_words(text)):
        return "gas or water"
    return None


def _heats(text: str) -> bool:
    return has_word(text, "heater heating pump kettle boiler cooler dispens soften bed$ pomp pumpe")


@dataclass(frozen=True)
class Meaning:
    """What the header of a column of numbers says."""

    # import, use, net, export, production, battery, other (a quantity that is no electric energy or
    # power), or "" where the header does not say.
    flow: str
    unit: str | None  # Electric unit
    counter: bool  # True if the header names a register
    part: str  # tariff, phase, total or ""
    mains: bool  # True if the header names the mains of a home
    generic: bool  # True if the header is a general word such as value or power


@lru_cache(maxsize=4096)
def read_meaning(name: str, context: str = "") -> Meaning:
    """The meaning of a column, from its name and from further header rows above it."""
    text = f"{context} {name}".strip()
    unit = find_unit(name) or find_unit(context)
    obis = re.search(r"(?<![\d.])([12])[.:_-]?([78])[.:_-]?([0-4])(?!\d)", name)
    generic = _is_generic(name)
    flow = _flow(text, unit, obis)
    counter = has_word(text, COUNTER) or (obis is not None and obis[2] == "8")
    # Data bases sample a counter by its first or last value in an interval.
    counter |= bool(unit) and re.search(r"[._ ](first|last)(_value)?$", name.lower()) is not None
    return Meaning(
        "use" if flow == "" and generic and has_word(name, HOMES) else flow,
        unit,
        counter,
        _part(name, obis),
        has_word(name, MAINS) or (generic and has_word(name, HOMES)),
        generic,
    )


def _is_generic(name: str) -> bool:
    """True if a name has no word of its own, such as that of a circuit."""
    known = " ".join((GENERIC_VALUES, IMPORT, USE, TOTAL, MAINS, HOMES, TARIFF, PHASE, COUNTER))
    words = (w for w in split_words(name) if w not in ELECTRIC_UNITS and not w.isdigit())
    return all(has_word(word, known) for word in words)


def _flow(text: str, unit: str | None, obis: re.Match[str] | None) -> str:
    """Direction or quantity; what is not the home's use is looked for first."""
    if find_source(text) or (unit is None and has_other_unit(text)):
        return "other"
    if PRICE.search(text):
        return "other"
    joined = " ".join(split_words(text))
    if re.search(r"\bto (the )?grid\b|\ba (?:-|minus)\b", joined):
        return "export"
    if re.search(r"\bfrom (the )?grid\b|\bgrid consumption\b", joined):
        return "import"
    for flow, beginnings in (("export", EXPORT), ("battery", BATTERY), ("production", PRODUCTION)):
        if has_word(text, beginnings):
            return flow
    # In Dutch, "het net" is the grid.
    if has_word(text, NET) and not has_word(text, "het$ van$ uit$ aan$ naar$"):
        return "net"
    if has_word(text, PEAK) or _is_extreme(split_words(text)):
        return "other"
    if (has_word(text, COST) and unit is None) or has_word(text, OTHER):
        return "other"
    if has_word(text, COST) and has_word(text, "cost price preis prijs prix charges epex spot ttf"):
        return "other"
    if obis is not None:
        return "import" if obis[1] == "1" else "export"
    if has_word(text, IMPORT):
        return "import"
    return "use" if has_word(text, USE) else ""


def _is_extreme(words: tuple[str, ...]) -> bool:
    """True for a largest or smallest value; "15 min" is a length of time."""
    return any(
        word in ("max", "min") and not (i and words[i - 1].isdigit())
        for i, word in enumerate(words)
    )


def _part(name: str, obis: re.Match[str] | None) -> str:
    if has_word(name, PHASE) or re.search(r"[(_\s-][ABC]\)?(?:\s*\(|$)", name):
        return "phase"
    if has_word(name, TOTAL) or (obis is not None and obis[3] == "0" and obis[2] == "8"):
        return "total"
    if has_word(name, TARIFF) or (obis is not None and obis[2] == "8"):
        return "tariff"
    return ""
