// The Dutch texts for households. What is missing here, such as the texts for experts, is shown in
// English. Names in braces are replaced by values. Sentences that the server writes are not here.
export default {
  language: "nl",
  locale: "nl-NL",
  title: "hushmeter: wat uw meter verraadt",
  skip: "Naar de inhoud",
  promise: "Draait op uw eigen computer. Uw meetwaarden worden niet bewaard en nergens heen gestuurd.",

  hero: {
    title: "Wat verraadt uw elektriciteitsmeter over u?",
    lead:
      "De waarden van een slimme meter laten zien wanneer mensen opstaan, wanneer ze weg zijn en wat ze aanzetten. " +
      "Zeg wat niemand mag weten, zie wat het kost, en deel de rest.",
  },

  source: {
    title: "Kies meetwaarden",
    hint:
      "Sleep een bestand hierheen. De pagina herkent Green Button XML, CSV-bestanden van veel leveranciers, exports " +
      "van Home Assistant, Parquet en andere formaten.",
    choose: "Kies een bestand",
    examples: { household: "Bekijk een voorbeeld", evening: "Apparaten bekend", "redd-like": "Een ander huis" },
    options: "Opties voor het lezen van een bestand",
    option: "de optie “{field}”",
    field: {
      tz: "Tijdzone, als het bestand er geen noemt",
      tz_hint: "Europe/Amsterdam",
      unit: "Eenheid van de waarden",
      unit_hint: "W, kW, Wh, kWh",
      stamp: "Een tijd is het begin of het einde van zijn meetwaarde",
      stamp_hint: "start of end",
      time_column: "Kolom met de tijden",
      value_column: "Kolom met de meetwaarden",
      building: "Huis, als het bestand er meer heeft",
    },
  },

  file: {
    examples: { household: "Voorbeeldhuishouden", evening: "Voorbeeld “evening”", "redd-like": "Voorbeeld “redd-like”" },
    figures: "{readings} meetwaarden van {interval}, {span} ({zone})",
    figures_one: "{readings} meetwaarde van {interval}, {span} ({zone})",
    more: "Meer over deze meetwaarden",
    change: "Andere meetwaarden",
  },

  findings: {
    title: "Wat iedereen ziet die deze meetwaarden heeft",
    all: "Toon alle {count}",
    none: "De pagina vond in deze meetwaarden geen gewoonte en geen apparaat.",
    wait: "De pagina zoekt gewoonten en apparaten in deze meetwaarden.",
  },

  wishes: {
    title: "Wat mag niemand kunnen zien?",
    people_title: "Over ons",
    people: {
      "when we get up": "wanneer we opstaan",
      evenings: "wat we ’s avonds doen",
      "which days we are away": "op welke dagen we weg zijn",
      "that we are away": "dat we weg zijn",
      "who we are": "wie we zijn",
    },
    have: "Of over apparaten: ik heb",
    hide: "Niemand mag zien wanneer ik dit gebruik",
    hide_first: "Vink eerst aan wat u hebt.",
    seen: "Een stip staat bij wat in uw meetwaarden te zien kan zijn. De ruis hangt daar niet van af.",
    seen_one: "kan in uw meetwaarden te zien zijn",
    more: "nog {count} apparaten",
    more_seen: "nog {count}; {seen} kunnen in uw meetwaarden te zien zijn",
    purpose: "Waarvoor zijn de gegevens?",
    choose: "gegevens voor “{purpose}”",
    purposes: { hour: "uren", day: "dagen", month: "maanden", profile: "typische dag", register: "teller" },
    odds: "Niemand mag vaker gelijk hebben dan",
    at_most: "{odds} van de 100 keer",
  },

  left: {
    title: "Wat er overblijft",
    gone: "Weg:",
    there: "Nog te zien:",
    note: "Gemeten op deze computer met {releases} gesimuleerde publicaties. Deze lijst is alleen voor u en staat in geen enkel bewijs.",
  },

  trace: {
    metered: "gemeten",
    released: "gepubliceerd",
    window: "Toon",
    whole: "alle meetwaarden",
    first: "{count} meetwaarden",
    last: { hour: "een uur", hours4: "4 uur", day: "een dag", week: "een week", month: "30 dagen" },
    earlier: "Eerder",
    later: "Later",
    columns: { time: "Tijd", metered: "Gemeten", released: "Gepubliceerd" },
  },

  release: {
    title: "Wat het huis verlaat",
    caption: "Grijs is wat de meter heeft gemeten. Blauw is een voorbeeld van wat gepubliceerd zou worden.",
    none: "Er is nog niets verborgen: deze meetwaarden zouden het huis verlaten zoals ze zijn.",
  },

  cost: {
    title: "Wat het u kost",
    nothing: "Vink aan wat niemand mag zien. Dan staat hier wat het kost.",
    wait: "De server zoekt de ruis die dit met de laagste kosten verbergt.",
    odds: "De beste aanvaller heeft {first} van de 100 keer gelijk, een munt 50 keer",
    odds_day: " (over een hele dag met gewoon verbruik: {day})",
    per: {
      hour: "in elk uur",
      day: "op elke dag",
      month: "in elke maand",
      profile: "in elk uur van de typische dag",
      register: "in elke tellerstand",
    },
    bar_error: "gebruikelijke fout: {value}",
    bar_own: "uw gemiddelde: {value}",
  },

  words: { more: "In gewone woorden", wait: "De aanvaller rekent." },

  expert: {
    title: "ε, eenheid, ruis en theorie",
    lead: "De keuzes hierboven stellen alles hier in. Deskundigen kunnen het met de hand wijzigen (in het Engels).",
    own: "U hebt de ruis met de hand gekozen; de pagina belooft niet meer wat u hebt aangevinkt.",
    back: "Terug naar wat ik heb aangevinkt",
  },

  download: {
    title: "Download de beschermde meetwaarden",
    nothing: "Er is nog niets te downloaden: vink aan wat niemand mag zien.",
    stake: "De bestanden omvatten al uw meetwaarden en verbergen {unit}.",
    format: "Formaat",
    formats: { zip: "Uren, dagen en maanden", csv: "Eén reeks (CSV)", parquet: "Parquet" },
    prepare: "Maak de bestanden",
    wait: "De server trekt de ruis en schrijft het bewijs. Dit duurt enkele seconden.",
    ready: "De bestanden zijn klaar. Ze verbergen {unit}.",
    save: "Bewaar {name}",
    parts:
      "Geef de meetwaarden en het bewijs aan de ontvanger. Het bestand dat op .private.json eindigt noemt uw " +
      "apparaten: houd het voor uzelf.",
    outdated: "U hebt de instellingen gewijzigd. Maak de bestanden opnieuw.",
  },

  noise: { or_the: " of ", units: { use: "één gebruik: {names}" } },

  table: { show: "Toon als tabel", rows_left: "Dit zijn de eerste {shown} van {all} rijen." },
  error: {
    dismiss: "Sluiten",
    unreachable: "De server antwoordt niet. Draait “hushmeter serve” nog?",
    unknown: "De server antwoordde met een fout ({status}).",
    forgotten: "De server heeft deze meetwaarden niet meer. Kies het bestand opnieuw.",
  },
  unit_of: { hours: "h", minutes: "min", seconds: "s", days: "dagen" },
};
