// The German texts for households. What is missing here, such as the texts for experts, is shown in
// English. Names in braces are replaced by values. Sentences that the server writes are not here.
export default {
  language: "de",
  locale: "de-DE",
  title: "hushmeter: was Ihr Zähler verrät",
  skip: "Zum Inhalt springen",
  promise: "Läuft auf Ihrem eigenen Rechner. Ihre Messwerte werden nicht gespeichert und nirgends hingesendet.",

  hero: {
    title: "Was verrät Ihr Stromzähler über Sie?",
    lead:
      "Die Werte eines Smart Meters zeigen, wann Menschen aufstehen, wann sie weg sind und was sie einschalten. " +
      "Sagen Sie, was niemand wissen soll, sehen Sie, was es kostet, und teilen Sie den Rest.",
  },

  source: {
    title: "Messwerte wählen",
    hint:
      "Legen Sie eine Datei hier ab. Die Seite erkennt Green Button XML, CSV-Dateien vieler Anbieter, Exporte von " +
      "Home Assistant, Parquet und andere Formate.",
    choose: "Datei wählen",
    examples: { household: "Beispiel ansehen", evening: "Geräte bekannt", "redd-like": "Anderes Zuhause" },
    options: "Angaben zum Lesen einer Datei",
    option: "die Angabe „{field}“",
    field: {
      tz: "Zeitzone, falls die Datei keine nennt",
      tz_hint: "Europe/Berlin",
      unit: "Einheit der Werte",
      unit_hint: "W, kW, Wh, kWh",
      stamp: "Eine Zeit ist Anfang oder Ende ihres Messwerts",
      stamp_hint: "start oder end",
      time_column: "Spalte mit den Zeiten",
      value_column: "Spalte mit den Messwerten",
      building: "Zuhause, falls die Datei mehrere hat",
    },
  },

  file: {
    examples: { household: "Beispielhaushalt", evening: "Beispiel „evening“", "redd-like": "Beispiel „redd-like“" },
    figures: "{readings} Messwerte von {interval}, {span} ({zone})",
    figures_one: "{readings} Messwert von {interval}, {span} ({zone})",
    more: "Mehr über diese Messwerte",
    change: "Andere Messwerte",
  },

  findings: {
    title: "Was jeder erkennt, der diese Messwerte hat",
    all: "Alle {count} zeigen",
    none: "Die Seite hat in diesen Messwerten keine Gewohnheit und kein Gerät gefunden.",
    wait: "Die Seite sucht Gewohnheiten und Geräte in diesen Messwerten.",
  },

  wishes: {
    title: "Was soll niemand erkennen können?",
    people_title: "Über uns",
    people: {
      "when we get up": "wann wir aufstehen",
      evenings: "was wir abends tun",
      "which days we are away": "an welchen Tagen wir weg sind",
      "that we are away": "dass wir überhaupt weg sind",
      "who we are": "wer wir sind",
    },
    have: "Oder über Geräte: Ich habe",
    hide: "Niemand soll erkennen, wann ich dies benutze",
    hide_first: "Kreuzen Sie zuerst an, was Sie haben.",
    seen: "Ein Punkt bezeichnet, was in Ihren Messwerten zu sehen sein kann. Das Rauschen hängt nicht davon ab.",
    seen_one: "kann in Ihren Messwerten zu sehen sein",
    more: "{count} weitere Geräte",
    more_seen: "{count} weitere; {seen} können in Ihren Messwerten zu sehen sein",
    purpose: "Wofür sind die Daten?",
    choose: "Daten für „{purpose}“",
    purposes: { hour: "Stunden", day: "Tage", month: "Monate", profile: "typischer Tag", register: "Zähler" },
    odds: "Niemand darf öfter recht haben als",
    at_most: "{odds} von 100 Malen",
  },

  left: {
    title: "Was übrig bleibt",
    gone: "Weg:",
    there: "Noch da:",
    note: "Auf diesem Rechner mit {releases} simulierten Veröffentlichungen gemessen. Diese Liste ist nur für Sie und steht in keinem Beleg.",
  },

  trace: {
    metered: "gemessen",
    released: "veröffentlicht",
    window: "Zeige",
    whole: "alle Messwerte",
    first: "{count} Messwerte",
    last: { hour: "eine Stunde", hours4: "4 Stunden", day: "einen Tag", week: "eine Woche", month: "30 Tage" },
    earlier: "Früher",
    later: "Später",
    columns: { time: "Zeit", metered: "Gemessen", released: "Veröffentlicht" },
  },

  release: {
    title: "Was das Haus verlässt",
    caption: "Grau ist, was der Zähler gemessen hat. Blau ist ein Beispiel dafür, was veröffentlicht würde.",
    none: "Noch ist nichts verborgen: Diese Messwerte würden das Haus verlassen, wie sie sind.",
  },

  cost: {
    title: "Was es Sie kostet",
    nothing: "Kreuzen Sie an, was niemand erkennen soll. Dann steht hier, was es kostet.",
    wait: "Der Server sucht das Rauschen, das dies mit den geringsten Kosten verbirgt.",
    odds: "Der beste Angreifer hat {first}-mal von 100 recht, eine Münze 50-mal",
    odds_day: " (über einen ganzen Tag mit üblichem Verbrauch: {day})",
    per: {
      hour: "in jeder Stunde",
      day: "an jedem Tag",
      month: "in jedem Monat",
      profile: "in jeder Stunde des typischen Tages",
      register: "in jedem Zählerstand",
    },
    bar_error: "üblicher Fehler: {value}",
    bar_own: "Ihr Mittel: {value}",
  },

  words: { more: "In einfachen Worten", wait: "Der Angreifer rechnet." },

  expert: {
    title: "ε, Einheit, Rauschen und Theorie",
    lead: "Die Wahl oben stellt alles hier ein. Fachleute können es von Hand ändern (auf Englisch).",
    own: "Sie haben das Rauschen von Hand gewählt; die Seite verspricht nicht mehr, was Sie angekreuzt haben.",
    back: "Zurück zu dem, was ich angekreuzt habe",
  },

  download: {
    title: "Die geschützten Messwerte herunterladen",
    nothing: "Noch gibt es nichts herunterzuladen: Kreuzen Sie an, was niemand erkennen soll.",
    stake: "Die Dateien umfassen alle Ihre Messwerte und verbergen {unit}.",
    format: "Format",
    formats: { zip: "Stunden, Tage und Monate", csv: "Eine Reihe (CSV)", parquet: "Parquet" },
    prepare: "Dateien erstellen",
    wait: "Der Server zieht das Rauschen und schreibt den Beleg. Das dauert einige Sekunden.",
    ready: "Die Dateien sind fertig. Sie verbergen {unit}.",
    save: "{name} speichern",
    parts:
      "Geben Sie die Messwerte und den Beleg dem Empfänger. Die Datei, die auf .private.json endet, nennt Ihre " +
      "Geräte: Behalten Sie sie für sich.",
    outdated: "Sie haben die Einstellungen geändert. Bitte erstellen Sie die Dateien noch einmal.",
  },

  noise: { or_the: " oder ", units: { use: "eine Benutzung: {names}" } },

  table: { show: "Als Tabelle zeigen", rows_left: "Dies sind die ersten {shown} von {all} Zeilen." },
  error: {
    dismiss: "Schließen",
    unreachable: "Der Server antwortet nicht. Läuft „hushmeter serve“ noch?",
    unknown: "Der Server hat mit einem Fehler geantwortet ({status}).",
    forgotten: "Der Server hat diese Messwerte nicht mehr. Wählen Sie die Datei noch einmal.",
  },
  unit_of: { hours: "h", minutes: "min", seconds: "s", days: "Tage" },
};
