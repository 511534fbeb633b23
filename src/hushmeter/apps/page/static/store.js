// The state of the page in one place: the readings, the home and every setting.
//
// Each part of the page draws itself from this state, and each choice changes the state at once,
// so that what the page shows is always what a request will carry. Answers of the server arrive
// late and in any order. Whoever waits for one takes a turn with `expect`; the answer is used only
// if nobody has made a later choice about the same values.

/** Holds named values and tells its listeners which of them changed. */
export class Store {
  #values;
  #versions = new Map();
  #listeners = [];

  constructor(values) {
    this.#values = Object.freeze({ ...values });
  }

  /** All values as they are now; the object itself never changes. */
  get values() {
    return this.#values;
  }

  /** Call `listener(changed, values)` after every change; `changed` is the set of changed names. */
  subscribe(listener) {
    this.#listeners.push(listener);
  }

  /** Choose new values. A choice makes answers obsolete that are still expected for these names. */
  set(changes) {
    const names = Object.keys(changes);
    names.forEach((name) => this.#outdate(name));
    const changed = new Set(names.filter((name) => changes[name] !== this.#values[name]));
    if (changed.size === 0) return;
    this.#values = Object.freeze({ ...this.#values, ...changes });
    for (const listener of this.#listeners) listener(changed, this.#values);
  }

  /**
   * Expect an answer that will replace the named values. Returns a turn whose `isCurrent()` stays
   * true until somebody sets one of the values or expects another answer for it.
   */
  expect(...names) {
    names.forEach((name) => this.#outdate(name));
    const versions = names.map((name) => this.#versions.get(name));
    return { isCurrent: () => names.every((name, i) => this.#versions.get(name) === versions[i]) };
  }

  #outdate(name) {
    this.#versions.set(name, (this.#versions.get(name) ?? 0) + 1);
  }
}

/** The settings with which every page starts: nothing is chosen, and no noise is added. */
export const DEFAULTS = {
  session: null,
  isExample: false,
  zone: "UTC",
  findings: null,
  finding: null,
  home: null,
  homeSource: null,
  hide: [],
  purpose: "hour",
  odds: 0.6,
  plan: null,
  epsilon: null,
  mechanism: "laplace",
  protect: "use",
  span: "run",
  every: null,
  appliance: null,
  attacker: "strongest",
  restored: false,
  seed: 1,
  price_per_kwh: 0.3,
  format: "zip",
  consent: false,
};

/** The values that a download depends on. */
export const RELEASE_VALUES = [
  "session", "home", "homeSource", "hide", "epsilon", "mechanism", "protect", "span", "every", "appliance", "format", "consent",
];

/** The values that decide which numbers calibrate the noise. */
export const CALIBRATION_VALUES = ["session", "home", "hide", "protect", "span", "appliance"];

/** The values that decide what a plan must reach. */
export const PLAN_VALUES = ["session", "home", "hide", "purpose", "odds", "format"];

/** Wishes of a household, in the words that the server knows. */
export const PEOPLE = ["when we get up", "evenings", "which days we are away", "that we are away", "who we are"];

/** Whether something hidden is a wish of the household and not an appliance. */
export const isWish = (name) => PEOPLE.includes(name);

/** The values that only the drawing of what is already known depends on. */
export const DRAWN_VALUES = ["findings", "finding", "zone", "plan", "odds", "consent", "homeSource", "restored", "price_per_kwh"];

/** Whether a wish is answered with sums alone, which one series does not have. */
export const isOfSums = (values) =>
  !isOwnNoise(values) && (values.hide.some(isWish) || ["day", "month", "profile"].includes(values.purpose));

/** The format of a download; sums are files of their own in an archive. */
export const formatOf = (values) => (isOfSums(values) ? "zip" : values.format);

/** The fields of a request that say what must stay hidden; the server finds the noise. */
export const wishRequest = (values) => {
  const { hide, odds, purpose } = values;
  // A wish of the household chooses the tables itself.
  return { hide, odds, calendar: formatOf(values) === "zip", ...(!hide.some(isWish) && { purpose, span: "run" }) };
};

/** The fields of a request that name a promise: the wish, or the noise that was chosen by hand. */
export function noiseRequest(values) {
  const { epsilon, mechanism, protect, span, appliance, every, hide } = values;
  if (epsilon === null) return {};
  const unit = protect === "use" ? { span: "run", hide } : { protect, span, ...(appliance && { appliance }) };
  const asked = isOwnNoise(values) ? { epsilon, mechanism, ...unit } : wishRequest(values);
  return { ...asked, ...(every && { every: `${every}s` }) };
}

/** The fields of a request that name the readings, the home and the noise. */
export function releaseRequest(values) {
  return { trace: values.session.id, home: values.home, tz: values.zone, ...noiseRequest(values) };
}

/** Whether the noise was chosen by hand and not by the plan for what must stay hidden. */
export function isOwnNoise({ plan, epsilon, mechanism, every, protect }) {
  if (epsilon === null) return false;
  return !plan || protect !== "use" || epsilon !== plan.epsilon || mechanism !== plan.mechanism || every !== plan.every;
}

/** The change to another home. Appliances that it does not have can no longer be protected. */
export function homeChange(home, homeSource, { appliance, hide }) {
  const names = new Set(home?.appliances.map(({ name }) => name));
  // Without a home there is nothing that noise could be calibrated for.
  const noise = home || hide.some(isWish) ? {} : { protect: "use", span: "run", epsilon: null };
  return {
    home,
    homeSource,
    appliance: names.has(appliance) ? appliance : null,
    hide: hide.every((name) => names.has(name) || isWish(name)) ? hide : hide.filter((name) => names.has(name) || isWish(name)),
    ...noise,
  };
}
