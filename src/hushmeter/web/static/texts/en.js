// Every English text of the page. A translation is a copy of this file with the same keys; its
// language is added in ../texts.js. Names in braces are replaced by values. Sentences that the
// server writes are not here.
export default {
  language: "en",
  locale: "en-GB",
  title: "hushmeter: what your meter reveals",
  skip: "Skip to the content",
  promise: "Runs on your own computer. Your readings are not stored and not sent anywhere.",

  hero: {
    title: "What does your electricity meter reveal about you?",
    lead:
      "Smart-meter readings show which appliance ran and when. Add noise with a slider, and see " +
      "what an attacker can still detect and what the noise costs you.",
  },

  source: {
    title: "Choose meter readings",
    hint:
      "Drop a file here. The page recognises Green Button XML, CSV files of many suppliers, Home " +
      "Assistant exports, Parquet and other formats.",
    choose: "Choose a file",
    examples: { evening: "Try the example home", "redd-like": "Try another home" },
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
    eyebrow: "Your readings",
    example: "Example home “{name}”",
    figures: "{readings} readings of {interval}, {span} (UTC)",
    figures_one: "{readings} reading of {interval}, {span} (UTC)",
    more: "More about these readings",
    change: "Use other readings",
  },

  home: {
    eyebrow: "What the attacker knows about the home",
    title_one: "1 appliance",
    title: "{count} appliances",
    source: {
      file: "Learnt from the columns of single appliances in your file.",
      example: "These are the appliances of the example home.",
      typical:
        "Your file does not say which appliances you own. These are typical ones. Please change " +
        "them to yours.",
      edited: "You entered these appliances.",
      loaded: "These appliances come from the file {name}.",
    },
    chip: "{watts}, {source}",
    origin: { typed: "entered", catalogue: "typical", learnt: "learnt from readings" },
    edit: "Edit appliances",
    name_of: "Name of appliance {number}",
    watts_of: "Watts of appliance {number}",
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
      tolerance: "The tolerance must be a number of watts above 0.",
      none: "A home needs at least one appliance.",
    },
  },

  noise: {
    title: "Noise",
    epsilon: "ε, the privacy loss",
    slider: "Strength of the noise: more private on the left, more exact on the right",
    private: "more private",
    exact: "more exact",
    value: "ε = {epsilon}, {unit}",
    unit: "for {unit}",
    problem: "ε must be a number above 0 and at most {most}, such as 0.5.",
    scale: "Every released reading gets noise with a scale of {watts}.",
    delta: "The protection may fail with a probability of δ = {delta}.",
    span: "ε is the privacy loss of",
    spans: { reading: "one reading", run: "one run", day: "one day" },
    protect: "What is protected",
    protects: {
      appliance: "whether any appliance is on",
      fluctuation: "small fluctuations, but not switching",
    },
    protect_one: "whether the {name} is on",
    units: {
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

  advice: {
    title: "What must stay hidden?",
    appliance: "Hide the",
    span: "over",
    odds: "so that nobody is right about it more than",
    at_most: "{odds} times out of 100",
    find: "Find the release with the smallest error",
    wait: "The server compares intervals and kinds of noise. This takes some seconds.",
    apply: "Use these settings",
  },

  words: {
    title: "In plain words",
    attacker: "This is what the attacker “{attacker}” detects in the readings shown, at ε = {epsilon} for {unit}.",
    guesses: "This is what ε = {epsilon} for {unit} means.",
  },

  trace: {
    title: "The readings",
    caption: "Grey is what the meter measured. Blue is what would be released.",
    metered: "metered",
    released: "released",
    axis: "kW",
    summary:
      "The metered power lies between {low} and {high}, the released power between {released_low} " +
      "and {released_high}.",
    window: "Show",
    whole: "all readings",
    first: "{count} readings",
    last: { hour: "one hour", hours4: "4 hours", day: "one day", week: "one week", month: "30 days" },
    earlier: "Earlier",
    later: "Later",
    columns: { time: "Time (UTC)", metered: "Metered", released: "Released" },
  },

  strips: {
    title: "What the attacker detects",
    attacker: "Attacker",
    trained: "The attacker learnt from {data}.",
    truth: "really on",
    guess: "detected by the attacker",
    false_alarm: "detected, but really off",
    missed: "really on, but missed",
    believed: "on, in the attacker's opinion",
    no_home: "An attacker needs appliances to look for. Please add some to the home.",
    no_truth:
      "Your file does not say which appliances were really on, so nobody can check the guesses. " +
      "The strips show what the attacker would believe.",
    summary: "The {name} was really on for {on}. The attacker detected {seen} of this, and was wrong for another {alarm}.",
    summary_guess: "The attacker believes that the {name} was on for {on}.",
    columns: {
      appliance: "Appliance",
      on: "Really on",
      seen: "Detected",
      missed: "Missed",
      alarm: "Detected while off",
      believed: "Believed to be on",
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
    title: "What the noise costs",
    price: "Price of one kWh",
    price_problem: "The price of one kWh must be a number, 0 or more.",
    energy: "Energy",
    bill: "Bill",
    peak: "Highest hour",
    instead: "instead of {value}",
    error: "usual error ± {value}",
    span: "These numbers are for the readings shown: {span}.",
    hourly: "Hour by hour",
    metered: "metered",
    released: "released",
    axis: "mean power [kW]",
    columns: { time: "Hour (UTC)", metered: "Metered", released: "Released" },
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
    only_laplace: "The bounds are proved for Laplace noise only. For this kind of noise only the limit of any attacker is known.",
    summary: "At ε = {epsilon} for {unit}, no attacker is right more than {universal} times out of 100.",
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
    caption:
      "A release covers all of your readings. It gets new noise that nobody can reproduce, and a " +
      "receipt that says what is protected and how well.",
    stake: "The release will have ε = {epsilon} for {unit}.",
    format: "Format",
    formats: { csv: "CSV", parquet: "Parquet" },
    prepare: "Prepare the files",
    wait: "The server draws the noise and writes the receipt. This takes some seconds.",
    ready: "The files are ready. They have ε = {epsilon} for {unit}.",
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

  table: { show: "Show as a table", rows_left: "These are the first {shown} of {all} rows." },
  error: {
    dismiss: "Close",
    unreachable: "The server does not answer. Is “hushmeter serve” still running?",
    unknown: "The server answered with an error ({status}).",
    charts: "The charts could not be loaded: is plotly installed? Run pip install \".[web]\" in a clone of hushmeter.",
    token: "This page needs its token. Open the address that “hushmeter serve” printed.",
    forgotten: "The server no longer holds these readings. Choose the file again.",
  },
  about: "hushmeter {version}",
  unit_of: { hours: "h", minutes: "min", seconds: "s", days: "days" },
};
