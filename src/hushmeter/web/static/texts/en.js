// Every English text of the page. A translation is a copy of this file with the same keys, named
// in ../texts.js. Words in braces are filled in. Sentences that the server writes are not here.
export default {
  language: "en",
  locale: "en-GB",
  title: "hushmeter: what your meter tells",
  skip: "Skip to the content",
  promise: "Runs on your own computer. Your readings are not stored and not sent anywhere.",

  hero: {
    title: "What does your meter tell about you?",
    lead:
      "Smart-meter readings show which appliance ran when. Add noise with a slider and watch " +
      "what an attacker still sees, and what the noise costs.",
  },

  source: {
    title: "Start with readings",
    hint:
      "Drop a file here: Green Button XML, CSV from your supplier, Home Assistant, Parquet and " +
      "others are recognised.",
    choose: "Choose a file",
    examples: { evening: "Try the example home", "redd-like": "Try another home" },
    options: "My file needs a hint",
    option: "the hint “{field}”",
    field: {
      tz: "Time zone of times without one",
      tz_hint: "Europe/London",
      unit: "Unit of the values",
      unit_hint: "W, kW, Wh, kWh",
      stamp: "Times name the …",
      stamp_hint: "start or end of a reading",
      time_column: "Column of the times",
      value_column: "Column of the meter",
      building: "Which home, where there are several",
    },
  },

  file: {
    eyebrow: "Your readings",
    example: "Example home “{name}”",
    figures: "{readings} readings of {interval}, {span} (UTC)",
    more: "More about these readings",
    change: "Use other readings",
  },

  home: {
    eyebrow: "What the attacker knows about the home",
    title_one: "1 appliance",
    title: "{count} appliances",
    source: {
      file: "Learnt from the appliance meters in your file.",
      example: "The appliances of the example home.",
      typical:
        "Your file does not say which appliances you own. These are typical ones: change them " +
        "to yours.",
      edited: "As you entered them.",
      loaded: "Loaded from {name}.",
    },
    edit: "Edit appliances",
    name_of: "Name of appliance {number}",
    watts_of: "Watts of appliance {number}",
    remove_of: "Remove {name}",
    add: "Add an appliance",
    new_name: "appliance {number}",
    tolerance: "Tolerance",
    tolerance_hint: "How far a step of the meter may be from an appliance's watts.",
    save: "Save home",
    load: "Load home",
    learn: "Learn from appliance meters",
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
    slider: "Privacy: left is more private, right is more exact",
    private: "more private",
    exact: "more exact",
    value: "ε = {epsilon}, {unit}",
    unit: "for {unit}",
    problem: "ε must be a number above 0 and at most {most}, such as 0.5.",
    scale: "Noise of {watts} on every reading.",
    delta: "The promise may fail with a chance of δ = {delta}.",
    span: "ε counts for",
    spans: { reading: "one reading", run: "one run", day: "one day" },
    protect: "What stays hidden",
    protects: {
      appliance: "whether any appliance is on",
      fluctuation: "small fluctuations, not switches",
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
      laplace: "The usual choice: pure ε.",
      staircase: "Pure ε, and least error where ε is large for one reading.",
      gaussian: "Less noise over runs and days; the promise may fail with a chance of δ.",
    },
    redraw: "Draw anew",
    seed: "Simulated noise number {seed}.",
    simulation: "A download draws fresh, secret noise.",
  },

  every: {
    title: "Release one reading every",
    hint: "Longer readings hide short runs, and need less noise for the same ε.",
    now: "One reading every {every}.",
  },

  advice: {
    title: "What must stay hidden?",
    appliance: "Hide the",
    span: "over",
    odds: "with nobody right about it more than",
    at_most: "{odds} times of 100",
    find: "Find the cheapest way",
    wait: "Looking through intervals and kinds of noise. This takes some seconds.",
    apply: "Set the controls to this",
  },

  words: {
    title: "In plain words",
    attacker: "What the attacker “{attacker}” gets right in the readings shown, at ε = {epsilon} for {unit}.",
    guesses: "What ε = {epsilon} for {unit} promises.",
  },

  trace: {
    title: "The readings",
    caption: "Grey: what the meter measured. Blue: what would be released.",
    metered: "metered",
    released: "released",
    axis: "kW",
    summary:
      "The metered power lies between {low} and {high}, the released power between {released_low} " +
      "and {released_high}.",
    window: "Show",
    whole: "everything",
    first: "{count} readings",
    last: { hour: "one hour", hours4: "4 hours", day: "one day", week: "one week", month: "30 days" },
    earlier: "Earlier",
    later: "Later",
    columns: { time: "Time (UTC)", metered: "Metered", released: "Released" },
  },

  strips: {
    title: "What the attacker sees",
    attacker: "Attacker",
    trained: "It learnt from {data}.",
    truth: "really on",
    guess: "seen by the attacker",
    false_alarm: "seen, but off",
    missed: "on, but missed",
    believed: "on, as the attacker believes",
    no_home: "Without appliances there is nothing to look for: add some to the home.",
    no_truth:
      "Your file does not say what was really on, so nobody can check the guesses. The strips " +
      "show what the attacker would believe.",
    summary: "{name}: really on for {on}, of which seen {seen}; seen while off for {alarm}.",
    summary_guess: "{name}: believed to be on for {on}.",
    columns: {
      appliance: "Appliance",
      on: "Really on",
      seen: "of which seen",
      missed: "missed",
      alarm: "Seen while off",
      believed: "Believed on",
    },
  },

  visibility: {
    title: "How visible each appliance stays",
    caption:
      "0: the attacker does no better than a guess without your data. 100: every moment seen. " +
      "The line shows the 95 % interval.",
    axis: "visibility, of 100",
    text: "right {right} of 100; without data {guess}",
    no_truth: "Needs readings that say what was really on, such as the example home.",
    columns: {
      appliance: "Appliance",
      right: "Right, of 100 moments",
      guess: "Without data",
      visibility: "Visibility, of 100",
      interval: "95 % interval",
    },
  },

  cost: {
    title: "What it costs",
    price: "Price of one kWh",
    price_problem: "The price of one kWh must be a number, 0 or more.",
    energy: "Energy",
    bill: "Bill",
    peak: "Highest hour",
    instead: "instead of {value}",
    error: "usual error ± {value}",
    span: "Of the readings shown: {span}.",
    hourly: "Hour by hour",
    metered: "metered",
    released: "released",
    axis: "kW, mean",
    columns: { time: "Hour (UTC)", metered: "Metered", released: "Released" },
  },

  bounds: {
    title: "How accurate an attacker can be",
    caption:
      "Accuracy against ln(1/ε), drawn in the direction of the slider. The line marks where the " +
      "slider stands.",
    axis: "ln(1/ε)",
    private: "← more private",
    exact: "more exact →",
    accuracy: "accuracy",
    lower: "proved lower bound",
    upper: "proved upper bound",
    vacuous: "bound says nothing",
    curve: "relaxed attacker, exact",
    universal: "limit of any attacker",
    floor: "“nothing switched”",
    here: "slider",
    only_laplace: "The bounds are proved for Laplace noise only; for this kind, only the limit is.",
    summary: "At ε = {epsilon} for {unit}: any attacker at most {universal} of 100.",
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
    title: "Take the protected readings with you",
    caption:
      "A release covers all of your readings, draws fresh noise that nobody can replay, and " +
      "comes with a receipt that says what it promises.",
    stake: "Released at ε = {epsilon} for {unit}.",
    format: "Format",
    formats: { csv: "CSV", parquet: "Parquet" },
    prepare: "Prepare files",
    wait: "Drawing the noise and writing the receipt. This takes some seconds.",
    ready: "Ready, at ε = {epsilon} for {unit}:",
    data: "Save {name}",
    receipt: "Save {name}",
    again:
      "Prepared {count} times. Publish one of them only: together they say as much as " +
      "ε = {sum} for {unit}.",
    again_mixed: "Prepared {count} times. Publish one of them only: every further one says more.",
  },

  table: { show: "Show as a table", rows_left: "The first {shown} of {all} rows." },
  error: {
    dismiss: "Close",
    unreachable: "The server does not answer: is “hushmeter serve” still running?",
    unknown: "The server answered with an error ({status}).",
    charts: "The charts could not be loaded: is plotly installed? Run pip install \".[web]\" in a clone of hushmeter.",
    token: "This page needs its token: open the address that “hushmeter serve” printed.",
    forgotten: "The server no longer has these readings: choose the file again.",
  },
  about: "hushmeter {version}",
  unit_of: { hours: "h", minutes: "min", seconds: "s", days: "days" },
};
