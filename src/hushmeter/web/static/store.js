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

/** The settings with which every page starts. */
export const DEFAULTS = {
  session: null,
  isExample: false,
  home: null,
  homeSource: null,
  epsilon: 1,
  mechanism: "laplace",
  protect: "appliance",
  span: "reading",
  every: null,
  appliance: null,
  attacker: "bayes",
  seed: 1,
  price_per_kwh: 0.3,
  format: "csv",
  consent: false,
};

/** The values that a download depends on. */
export const RELEASE_VALUES = [
  "session", "home", "homeSource", "epsilon", "mechanism", "protect", "span", "every", "appliance", "format", "consent",
];

/** The values that decide which numbers calibrate the noise. */
export const CALIBRATION_VALUES = ["session", "home", "protect", "span", "appliance"];

/** The fields of a request that name the noise and its unit of protection. */
export function noiseRequest({ epsilon, mechanism, protect, span, appliance, every }) {
  return { epsilon, mechanism, protect, span, ...(appliance && { appliance }), ...(every && { every: `${every}s` }) };
}

/** The fields of a request that name the readings, the home and the noise. */
export function releaseRequest(values) {
  return { trace: values.session.id, home: values.home, ...noiseRequest(values) };
}

/** The change to another home: an appliance that it does not have is no longer protected alone. */
export function homeChange(home, homeSource, { appliance }) {
  const known = home.appliances.some(({ name }) => name === appliance);
  return { home, homeSource, appliance: known ? appliance : null };
}
