// Every English text of the page. A translation has the same keys, and under `server` also patterns of the
// English sentences that the server writes; its language is added in ../texts.js. Names in braces are replaced
// by values.
export default {
  language: "en",
  locale: "en-GB",
  title: "hushmeter: what your meter reveals",
  skip: "Skip to the content",
  promise: "Runs on your own computer. Your readings are not stored and not sent anywhere.",

  hero: {
    title: "What does your electricity meter reveal about you?",
    lead:
      "Smart-meter readings show when people get up, when they are away and what they switch on. " +
      "Say what nobody should know, see what it costs, and share the rest.",
  },

  source: {
    title: "Choose meter readings",
    hint:
      "Drop a file here. The page recognises Green Button XML, CSV files of many suppliers, Home " +
      "Assistant exports, Parquet and other formats.",
    choose: "Choose a file",
    examples: { household: "Try an example", evening: "Appliances known", "redd-like": "Another home" },
    options: "Options for reading a file",
    option: "the option “{field}”",
    field: {
      tz: "Time zone, if the file does not name it",
      tz_hint: "Europe/London",
      unit: "Unit of the values",
      unit_hint: "W, kW, Wh, kWh",
      stamp: "A time is the start or the end of its reading",
      stamp_hint: "start or end",
      time_column: "Column with the times",
      value_column: "Column with the readings",
      building: "Home, if the file has several",
    },
  },

  file: {
    examples: {
      household: "Example household",
      evening: "Example home “evening”",
      "redd-like": "Example home “redd-like”",
    },
    figures: "{readings} readings of {interval}, {span} ({zone})",
    figures_one: "{readings} reading of {interval}, {span} ({zone})",
    more: "More about these readings",
    change: "Use other readings",
  },

  findings: {
    title: "What anybody who has these readings can tell",
    all: "Show all {count}",
    none: "The page found no habit and no appliance in these readings.",
    wait: "The page searches these readings for habits and appliances.",
  },

  wishes: {
    title: "What should nobody be able to tell?",
    people_title: "About us",
    people: {
      "when we get up": "when we get up",
      evenings: "what we do in the evenings",
      "which days we are away": "which days we are away",
      "that we are away": "that we are away at all",
      "who we are": "who we are",
    },
    have: "Or about appliances: I have",
    hide: "Nobody should be able to tell that I use",
    size: "Power of the {name} in kW",
    size_hint: "It is on its type plate or in its manual, mostly between {low} and {high}. The noise follows from it.",
    size_add: "Add",
    size_open: "size?",
    size_problem: "Enter the power of the {name} in kW, such as 7.4.",
    seen: "A dot marks what may show in your readings. The noise does not depend on it.",
    seen_one: "may show in your readings",
    more: "{count} more appliances",
    more_seen: "{count} more; {seen} may show in your readings",
    purpose: "What is the data for?",
    choose: "data for “{purpose}”",
    purposes: { hour: "hours", day: "days", month: "months", profile: "typical day", register: "counter" },
    odds: "Nobody may be right more than",
    at_most: "{odds} times out of 100",
  },

  left: {
    title: "What is left",
    gone: "Gone:",
    open: "Uncertain:",
    there: "Still there:",
    first: "This is a first estimate from {releases} simulated releases; it is being refined.",
    note: "Measured on this computer with {releases} simulated releases.",
    alone: "This list is for you alone and is in no receipt.",
  },

  home: {
    title_one: "The attacker knows 1 appliance",
    title: "The attacker knows {count} appliances",
    source: {
      file: "The names come from the columns of single appliances in your file.",
      example: "These are the appliances of the example home.",
      ticked: "You ticked these appliances. Their numbers are typical upper values.",
      none: "Tick what you have, or load a home.",
      edited: "You entered these appliances.",
      loaded: "These appliances come from the file {name}.",
    },
    chip: "up to {watts}, {source}",
    origin: { typed: "entered", catalogue: "typical", learnt: "learnt from readings" },
    edit: "Edit appliances",
    name_of: "Name of appliance {number}",
    watts_of: "Largest watts of appliance {number}",
    run_of: "Longest run of appliance {number}, in minutes",
    remove_of: "Remove {name}",
    add: "Add an appliance",
    new_name: "appliance {number}",
    tolerance: "Tolerance",
    tolerance_hint: "The largest difference between a step of the meter and the watts of an appliance.",
    save: "Save home",
    load: "Load home",
    learn: "Learn from my file",
    file_name: "home.toml",
    problem: {
      name: "Appliance {number} needs a name.",
      same: "Two appliances are named “{name}”.",
      watts: "The watts of {name} must be a number above 0.",
      run: "The minutes of {name} must be a number above 0, or empty if nobody knows them.",
      tolerance: "The tolerance must be a number of watts above 0.",
    },
  },

  noise: {
    title: "Noise",
    epsilon: "ε, the privacy loss",
    slider: "Strength of the noise: more private on the left, more exact on the right",
    private: "more private",
    exact: "no noise",
    none: "no noise",
    no_scale: "No noise is added.",
    or_the: " or the ",
    value: "ε = {epsilon}, {unit}",
    unit: "for {unit}",
    problem: "ε must be a number above 0 and at most {most}, such as 0.5.",
    scale: "Every released reading gets noise with a scale of {watts}.",
    delta: "The protection may fail with a probability of δ = {delta}.",
    span: "ε is the privacy loss of",
    spans: { reading: "one reading", run: "one run", day: "one day" },
    protect: "What is protected",
    protects: {
      use: "what I ticked",
      appliance: "whether any appliance is on",
      fluctuation: "small fluctuations, but not switching",
    },
    protect_one: "whether the {name} is on",
    units: {
      use: "one run of the {names}",
      appliance: {
        reading: "one reading of any appliance",
        run: "one run of any appliance",
        day: "one day of any appliance",
      },
      one: {
        reading: "one reading of the {name}",
        run: "one run of the {name}",
        day: "one day of the {name}",
      },
      fluctuation: { reading: "fluctuations in one reading" },
    },
    mechanism: "Kind of noise",
    mechanisms: { laplace: "Laplace", staircase: "Staircase", gaussian: "Gaussian" },
    mechanism_hints: {
      laplace: "This is the usual choice. The protection never fails.",
      staircase: "This noise has the smallest error if ε is large. The protection never fails.",
      gaussian: "This needs less noise for runs and days. The protection may fail with a probability of δ.",
    },
    redraw: "Draw other noise",
    seed: "This is simulated noise, number {seed}.",
    simulation: "A download gets new noise that nobody knows.",
  },

  every: {
    title: "Release one reading every",
    hint: "Longer readings hide short runs and need less noise for the same ε.",
    now: "One reading is released every {every}.",
  },

  expert: {
    title: "ε, unit, noise and theory",
    lead: "The choices above set everything here. Experts can change it by hand.",
    own: "You chose the noise by hand, so the page no longer promises what you ticked.",
    back: "Go back to what I ticked",
  },

  words: {
    more: "In plain words",
    wait: "The attacker computes.",
    strongest: "The strongest attacker ({attacker}) detects this in the released readings shown.",
    strongest_no_noise: "The strongest attacker ({attacker}) detects this in the readings shown, without any noise.",
    attacker: "This is what the attacker “{attacker}” detects in the released readings shown.",
    attacker_no_noise: "This is what the attacker “{attacker}” detects in the readings shown, without any noise.",
  },

  trace: {
    metered: "metered",
    released: "released",
    restored: "restored (estimate)",
    axis: "kW",
    summary: "The metered power lies between {low} and {high}.",
    window: "Show",
    whole: "all readings",
    first: "{count} readings",
    last: { hour: "one hour", hours4: "4 hours", day: "one day", week: "one week", month: "30 days" },
    earlier: "Earlier",
    later: "Later",
    columns: { time: "Time", metered: "Metered", released: "Released" },
  },

  release: {
    title: "What leaves the house",
    caption: "Grey is what the meter measured. Blue is one example of what would be released.",
    none: "Nothing is hidden yet: these readings would leave the house as they are.",
    summary: "The released power lies between {low} and {high}.",
    restore: "Show restored values (estimate)",
    restored:
      "Green, dotted: restored (estimate), usually off by {error}. It uses the release and its receipt " +
      "alone and costs no privacy.",
  },

  calendar: {
    title: "Restored values, typical day and months",
    note:
      "This is one example of a calendar release of all {days} days with the same protection: it shows hours, days, the " +
      "typical day and the months together. Grey bars are metered; blue points are released, with their standard error.",
    profile: "Typical day, mean power of each hour",
    months: "Energy of each month",
    watts: "W",
    kwh: "kWh",
    columns: { label: "Hour or month", metered: "Metered", released: "Released", error: "Standard error" },
  },

  attackers: {
    strongest: "The strongest of several",
    bayes: "Bayes, knows the noise",
    "one-shot": "One-shot (P3)",
    "multi-shot": "Multi-shot (Algorithm 1)",
    hierarchical: "Hierarchical (Algorithm 2)",
    co: "Combinatorial optimisation",
    fhmm: "Factorial HMM",
    "sparse-hmm": "Sparse-HMM",
    ip: "Integer program",
    alip: "Aided linear integer program",
    "all-off": "Believes that everything is off",
  },

  strips: {
    title: "What the strongest attacker still detects",
    title_other: "What this attacker still detects",
    attacker: "Attacker",
    trained: "The attacker learnt from {data}.",
    truth: "really on",
    guess: "detected by the attacker",
    false_alarm: "detected, but really off",
    missed: "really on, but missed",
    no_truth:
      "Your file does not say which appliances were really on, so that attacks on single appliances " +
      "cannot be scored here. The odds above hold for every attacker.",
    summary: "The {name} was really on for {on}. The attacker detected {seen} of this, and was wrong for another {alarm}.",
    columns: {
      appliance: "Appliance",
      on: "Really on",
      seen: "Detected",
      missed: "Missed",
      alarm: "Detected while off",
    },
  },

  visibility: {
    title: "How visible each appliance stays",
    caption:
      "At 0 the attacker is no better than a guess without your data. At 100 the attacker is right " +
      "at every moment. The thin line is the 95 % interval.",
    axis: "visibility, out of 100",
    text: "right {right} out of 100; no data {guess}",
    no_truth: "This needs readings that say which appliances were really on, such as those of the example home.",
    columns: {
      appliance: "Appliance",
      right: "Right out of 100 moments",
      guess: "Guess without data",
      visibility: "Visibility out of 100",
      interval: "95 % interval",
    },
  },

  cost: {
    title: "What it costs you",
    nothing: "Tick what nobody should be able to tell. Then this shows what it costs.",
    odds: "The best attacker is right {first} times out of 100, a coin 50 times",
    odds_day: " (about a whole day of usual use: {day})",
    wait: "The server looks for the noise that hides this at the least cost.",
    per: {
      hour: "in every hour",
      day: "in every day",
      month: "in every month",
      profile: "in every hour of the typical day",
      register: "in every value of the counter",
    },
    exact: "exact",
    bar_error: "usual error: {value}",
    bar_own: "your mean: {value}",
    details: "Energy, bill and highest hour",
    price: "Price of one kWh",
    price_problem: "The price of one kWh must be a number, 0 or more.",
    energy: "Energy",
    bill: "Bill",
    peak: "Highest hour",
    instead: "instead of {value}",
    error: "usual error ± {value}",
    span: "These numbers are for the readings shown: {span}.",
    columns: { time: "Hour", metered: "Metered", released: "Released" },
  },

  bounds: {
    title: "How accurate an attacker can be",
    caption:
      "The chart shows the accuracy against ln(1/ε), in the direction of the slider. The line " +
      "marks the position of the slider.",
    axis: "ln(1/ε)",
    private: "← more private",
    exact: "more exact →",
    accuracy: "accuracy",
    lower: "proved lower bound",
    upper: "proved upper bound",
    vacuous: "vacuous bound",
    curve: "exact accuracy of the relaxed attacker",
    universal: "limit of any attacker",
    floor: "guess “nothing switched”",
    here: "slider",
    meaning:
      "The curves show how often an attacker correctly names, from one reading, which appliances switched, if at " +
      "most one switches. The guess “nothing switched” is correct {floor} times out of 100.",
    only_laplace: "The bounds are proved for Laplace noise only. For this kind of noise only the limit of any attacker is known.",
    summary:
      "At ε = {epsilon} for {unit}, no attacker names the appliances that switched in one reading correctly more " +
      "than {universal} times out of 100.",
    columns: {
      epsilon: "ε",
      log: "ln(1/ε)",
      exact: "Relaxed attacker",
      lower: "Lower bound",
      upper: "Upper bound",
      universal: "Any attacker",
    },
  },

  download: {
    title: "Download the protected readings",
    nothing: "There is nothing to download yet: tick what nobody should be able to tell.",
    stake: "The files cover all of your readings and hide {unit}.",
    format: "Format",
    formats: { zip: "All tables (ZIP)", csv: "One series (CSV)", parquet: "Parquet" },
    prepare: "Prepare the files",
    wait: "The server draws the noise and writes the receipt. This takes some seconds.",
    ready: "The files are ready. They hide {unit}.",
    save: "Save {name}",
    parts:
      "Give the readings and the receipt to the recipient. The file that ends in .private.json " +
      "names your appliances: keep it for yourself.",
    numbers: "Numbers that calibrate the noise",
    sources: {
      typed: "You entered: {list}.",
      catalogue: "Typical values: {list}.",
      "learnt from other days": "Learnt from readings of other days and rounded up: {list}.",
      "learnt from these readings": "Learnt from these readings and rounded up: {list}.",
    },
    learnt:
      "Some of these numbers were learnt from the same readings that you release. The noise then " +
      "depends on your readings in a way that ε does not cover. It is safer to enter the numbers " +
      "yourself under “Edit appliances”.",
    consent: "I accept this. The receipt will say where the numbers come from.",
    consent_needed: "Please accept the learnt numbers, or enter your own, before you prepare the files.",
    again:
      "You have prepared {count} releases. Publish only one of them, because together they " +
      "reveal as much as one release with ε = {sum} for {unit}.",
    again_mixed:
      "You have prepared {count} releases. Publish only one of them, because each further one " +
      "reveals more.",
    outdated: "You have changed the settings. Please prepare the files again.",
    invalid: "One of the fields is not valid. Please correct it first.",
  },

  live: {
    promise: "For you alone: raw values are shown on this computer only and are not sent anywhere.",
    title: "Stream {name}",
    chart: "Raw against published values",
    raw: "raw mean",
    published: "published value",
    axis: "kW",
    attacker: "What the strongest attacker would say now",
    ran: "if the use was in the window",
    did_not: "if it was not",
    odds_axis: "out of 100",
    updated: "The last window ended on {last} ({zone}). The page asks again every ten seconds.",
    waiting: "No window has ended yet. The page asks again every ten seconds.",
    columns: {
      window: "window",
      raw: "raw W",
      published: "published W",
      share: "readings %",
      ran: "if it ran",
      did_not: "if it did not",
    },
  },

  table: { show: "Show as a table", rows_left: "These are the first {shown} of {all} rows." },
  error: {
    dismiss: "Close",
    unreachable: "The server does not answer. Is “hushmeter serve” still running?",
    unknown: "The server answered with an error ({status}).",
    charts: "The charts could not be loaded: is plotly installed? Run pip install \".[web]\" in a clone of hushmeter.",
    token: "This page shows nothing without its token: open the whole address that “hushmeter serve” printed at its start.",
    forgotten: "The server no longer holds these readings. Choose the file again.",
  },
  about: "hushmeter {version}",
  unit_of: { hours: "h", minutes: "min", seconds: "s", days: "days" },
};
