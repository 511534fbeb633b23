// The controls of the noise: ε, the released interval, the unit of protection, the kind of noise.

import { fillRadios, fillSelect, find, markInvalid, show } from "./dom.js";
import { bare, duration, plain, typedNumber, watts } from "./format.js";
import { isWish, isOwnNoise } from "./store.js";
import { say, sayOr, told } from "./texts.js";

const LEAST = 0.01;
const STEPS_PER_DECADE = 20;
// The field shows ε with this many digits, and typed values have at most as many.
const DIGITS = 6;
// Marks the choice of one appliance in the list of what is protected.
const ONE = "one ";

/** ε at a position of the slider. The scale is logarithmic, and ε has two digits. */
export function epsilonAt(position) {
  return Number((LEAST * 10 ** (position / STEPS_PER_DECADE)).toPrecision(2));
}

/** The position of the slider nearest to an ε; it is never below 0. */
export function positionOf(epsilon) {
  return Math.max(0, Math.round(STEPS_PER_DECADE * Math.log10(epsilon / LEAST)));
}

/**
 * The released intervals [s] to choose from; null is the metered one. Longer ones are whole
 * multiples of it, and at least two of them must fit into the readings.
 */
export function releasedIntervals(about, { interval_s, kept }) {
  const longest = (interval_s * kept) / 2;
  return [null, ...about.resolutions_s.filter((every) => isMultiple(every, interval_s) && every <= longest)];
}

/** Draws the controls from the store and writes every choice into it. */
export class NoiseControls {
  constructor(store, about, { problem }) {
    this.store = store;
    this.about = about;
    this.problem = problem;
    this.typing = false;
    const slider = find("slider");
    // The last position means that no noise is added.
    Object.assign(slider, { min: 0, max: positionOf(about.limits.max_epsilon) + 1, step: 1 });
    const mechanisms = about.mechanisms.map((name) => [name, sayOr(`noise.mechanisms.${name}`, name)]);
    fillSelect(find("mechanism"), mechanisms, store.values.mechanism);
    this.#listen();
    store.subscribe((changed) => this.#draw(changed));
    this.#draw(new Set(Object.keys(store.values)));
  }

  #listen() {
    const { store } = this;
    find("slider").addEventListener("input", ({ target }) => {
      this.#setEpsilon(target.value === target.max ? null : epsilonAt(Number(target.value)));
    });
    // Every keystroke that makes a valid number is a choice; the field itself is left alone.
    find("epsilon").addEventListener("input", ({ target }) => this.#type(target));
    find("epsilon").addEventListener("change", ({ target }) => this.#endTyping(target));
    find("protect").addEventListener("change", ({ target }) => {
      const appliance = target.value.startsWith(ONE) ? target.value.slice(ONE.length) : null;
      this.#setUnit({ protect: appliance ? "appliance" : target.value, appliance });
    });
    find("mechanism").addEventListener("change", ({ target }) => store.set({ mechanism: target.value }));
    find("redraw").addEventListener("click", () => store.set({ seed: store.values.seed + 1 }));
  }

  #type(field) {
    const epsilon = this.#typed(field.value);
    this.typing = true;
    markInvalid(field, epsilon === null);
    if (epsilon !== null) {
      this.#setEpsilon(epsilon);
      this.problem("", "epsilon");
    }
  }

  /** Choose ε by hand. If nothing was named that must stay hidden, it is for one reading. */
  #setEpsilon(epsilon) {
    const { protect, hide } = this.store.values;
    const unit = protect === "use" && hide.length === 0 && epsilon !== null ? { protect: "appliance", span: "reading" } : {};
    this.store.set({ epsilon, ...unit });
  }

  #endTyping(field) {
    const wrong = this.#typed(field.value) === null;
    this.typing = false;
    if (wrong) this.problem(say("noise.problem", { most: this.about.limits.max_epsilon }), "epsilon");
    markInvalid(field, false);
    this.#drawEpsilon();
  }

  /** The ε in the field, or null if it is not valid. */
  #typed(text) {
    const epsilon = Number(typedNumber(text).toPrecision(DIGITS));
    return epsilon > 0 && epsilon <= this.about.limits.max_epsilon ? epsilon : null;
  }

  /** Choose a unit of protection; a span that it does not have is replaced by its first one. */
  #setUnit(changes) {
    const { protect, span } = { ...this.store.values, ...changes };
    const spans = this.#spans(protect);
    this.store.set({ ...changes, span: spans.includes(span) ? span : spans[0] });
  }

  #spans(protect) {
    if (protect === "use") return ["run"];
    return unique(this.about.units.filter(([name]) => name === protect).map(([, span]) => span));
  }

  #draw(changed) {
    const any = (...names) => names.some((name) => changed.has(name));
    if (any("home", "protect", "appliance", "span", "hide")) this.#drawUnits();
    if (any("session", "every")) this.#drawIntervals();
    if (any("mechanism")) this.#drawMechanism();
    this.#drawEpsilon(changed);
  }

  #drawUnits() {
    const { home, protect, span, appliance, hide } = this.store.values;
    // Without appliances there is nothing for which noise could be calibrated.
    for (const id of ["slider", "epsilon", "protect", "mechanism"]) find(id).disabled = home === null;
    const protects = unique(this.about.units.map(([name]) => name));
    const choices = protects.map((name) => [name, sayOr(`noise.protects.${name}`, name)]);
    const single = (home?.appliances ?? []).map(({ name }) => [ONE + name, say("noise.protect_one", { name })]);
    choices.splice(protects.indexOf("appliance") + 1, 0, ...single);
    if (hide.length > 0 || protect === "use") choices.unshift(["use", say("noise.protects.use")]);
    fillSelect(find("protect"), choices, appliance ? ONE + appliance : protect);
    const labels = this.#spans(protect).map((name) => [name, sayOr(`noise.spans.${name}`, name)]);
    fillRadios(find("spans"), "span", labels, span, (chosen) => this.store.set({ span: chosen }));
    show(find("spans"), labels.length > 1);
  }

  #drawIntervals() {
    const { session, every } = this.store.values;
    if (!session) return;
    const intervals = releasedIntervals(this.about, session);
    const choices = intervals.map((interval) => [interval, duration(interval ?? session.interval_s)]);
    fillRadios(find("every"), "every", choices, every, (chosen) => this.store.set({ every: chosen }));
    show(find("every-choice"), intervals.length > 1);
  }

  #drawMechanism() {
    const { mechanism } = this.store.values;
    find("mechanism").value = mechanism;
    find("mechanism-hint").textContent = sayOr(`noise.mechanism_hints.${mechanism}`, "");
  }

  #drawEpsilon(changed = new Set()) {
    const { epsilon, seed } = this.store.values;
    const slider = find("slider");
    const field = find("epsilon");
    const position = epsilon === null ? Number(slider.max) : positionOf(epsilon);
    slider.value = position;
    slider.style.setProperty("--share", `${(100 * position) / Number(slider.max)}%`);
    const words = { epsilon: epsilon && plain(epsilon), unit: this.unit() };
    slider.setAttribute("aria-valuetext", epsilon === null ? say("noise.none") : say("noise.value", words));
    // A text that somebody is typing is never replaced, except by a later choice of another ε.
    const chosenElsewhere = changed.has("epsilon") && this.#typed(field.value) !== epsilon;
    if (chosenElsewhere) this.typing = false;
    if (!this.typing) field.value = epsilon === null ? "" : bare(epsilon, DIGITS);
    field.placeholder = say("noise.none");
    if (chosenElsewhere) markInvalid(field, false);
    find("unit-sentence").textContent = epsilon === null ? "" : say("noise.unit", { unit: this.unit() });
    show(find("own-noise"), isOwnNoise(this.store.values) && this.store.values.hide.length > 0);
    find("every-now").textContent = this.everyWords();
    find("seed-note").textContent = say("noise.seed", { seed });
  }

  /** The unit of protection in plain words. */
  unit({ protect, span, appliance, hide } = this.store.values) {
    const wishes = hide.filter(isWish).map((words) => `“${say(`wishes.people.${words}`)}”`);
    const names = hide.filter((name) => !isWish(name)).map((name) => told(name).text);
    if (protect === "use" && wishes.length > 0) return [...wishes, ...names].join(", ");
    if (protect === "use") return say("noise.units.use", { names: names.join(say("noise.or_the")) });
    if (appliance) return say(`noise.units.one.${span}`, { name: appliance });
    return sayOr(`noise.units.${protect}.${span}`, span);
  }

  /** How often a reading is released, if that is less often than it was metered. */
  everyWords() {
    const { every, epsilon } = this.store.values;
    return every && epsilon !== null ? say("every.now", { every: duration(every) }) : "";
  }

  /** Show the width of the noise and δ of a promise; null if there is no noise. */
  showNoise(promised) {
    if (promised === null) {
      find("noise-scale").textContent = say("noise.no_scale");
      return;
    }
    const { delta, tables: [{ noise }] } = promised.receipt;
    const promise = delta ? ` ${say("noise.delta", { delta: delta.toExponential(0) })}` : "";
    const scale = noise ? say("noise.scale", { watts: watts(noise.scale) }) : say("noise.no_scale");
    find("noise-scale").textContent = scale + promise;
  }
}

const unique = (values) => [...new Set(values)];

const isMultiple = (every, interval) => every > interval && Math.abs(every / interval - Math.round(every / interval)) < 1e-9;
