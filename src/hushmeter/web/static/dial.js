// ③ The slider, ε, the released interval, the unit of protection and the kind of noise.

import { fillRadios, fillSelect, find, show } from "./dom.js";
import { bare, duration, plain, typedNumber, watts } from "./format.js";
import { say, sayOr } from "./texts.js";

const LEAST = 0.01;
const STEPS_PER_DECADE = 20;
// Marks a choice of one appliance in the list of what is protected.
const ONE = "one ";

/** ε at a position of the slider: logarithmic, two digits, so that what is shown is what is used. */
export function epsilonAt(position) {
  return Number((LEAST * 10 ** (position / STEPS_PER_DECADE)).toPrecision(2));
}

/** The nearest position of the slider to an ε; there is none below 0. */
export function positionOf(epsilon) {
  return Math.max(0, Math.round(STEPS_PER_DECADE * Math.log10(epsilon / LEAST)));
}

/** Wires the controls to the settings; `changed` is called after each change. */
export class Dial {
  constructor(settings, about, { changed, problem }) {
    this.settings = settings;
    this.about = about;
    this.changed = changed;
    this.problem = problem;
    this.names = [];
    this.#fill();
    this.#listen();
    this.#showEpsilon();
  }

  #fill() {
    const { settings, about } = this;
    Object.assign(find("slider"), { min: 0, max: positionOf(about.limits.max_epsilon), step: 1 });
    this.#fillUnits();
    fillSelect(
      find("mechanism"),
      about.mechanisms.map(({ name, label }) => [name, sayOr(`noise.mechanisms.${name}`, label)]),
      settings.mechanism,
    );
    this.#showMechanism();
  }

  #fillUnits() {
    const { settings, about } = this;
    const protects = unique(about.units.map((unit) => unit.protect));
    const choices = protects.map((name) => [name, sayOr(`noise.protects.${name}`, name)]);
    const single = this.names.map((name) => [ONE + name, say("noise.protect_one", { name })]);
    choices.splice(protects.indexOf("appliance") + 1, 0, ...single);
    if (settings.appliance && !this.names.includes(settings.appliance)) settings.appliance = null;
    fillSelect(find("protect"), choices, settings.appliance ? ONE + settings.appliance : settings.protect);
    const offered = about.units.filter((unit) => unit.protect === settings.protect);
    const spans = unique(offered.map((unit) => unit.span));
    if (!spans.includes(settings.span)) settings.span = spans[0];
    const labels = spans.map((span) => [span, sayOr(`noise.spans.${span}`, span)]);
    fillRadios(find("spans"), "span", labels, settings.span, (span) => this.#set({ span }));
  }

  /** Another home: other appliances to protect. */
  setAppliances(names) {
    this.names = names;
    this.#fillUnits();
    this.#showEpsilon();
  }

  /** Other readings: other intervals to release them in, of which two at least fit. */
  setReadings({ interval_s, kept }) {
    const longest = (interval_s * kept) / 2;
    const longer = this.about.resolutions_s.filter((every) => isMultiple(every, interval_s) && every <= longest);
    this.intervals = [null, ...longer];
    this.metered_s = interval_s;
    if (!this.intervals.includes(this.settings.every)) this.settings.every = null;
    this.#fillIntervals();
    show(find("every-choice"), longer.length > 0);
  }

  #fillIntervals() {
    const name = (every) => duration(every ?? this.metered_s);
    const choices = this.intervals.map((every) => [every, name(every)]);
    fillRadios(find("every"), "every", choices, this.settings.every, (every) => this.#set({ every }));
  }

  /** Set everything at once, as advice does; `every_s` is the released interval. */
  apply({ epsilon, mechanism, span, every_s, appliance }) {
    const every = every_s === this.metered_s ? null : every_s;
    Object.assign(this.settings, { epsilon, mechanism, protect: "appliance", span, appliance, every });
    find("mechanism").value = mechanism;
    this.#showMechanism();
    this.#fillUnits();
    this.#fillIntervals();
    this.#set({});
  }

  /** The fields of a request that name the noise and its unit of protection. */
  request() {
    const { epsilon, mechanism, protect, span, appliance, every } = this.settings;
    return { epsilon, mechanism, protect, span, ...(appliance && { appliance }), ...(every && { every: `${every}s` }) };
  }

  #listen() {
    find("slider").addEventListener("input", (event) => {
      this.#set({ epsilon: epsilonAt(Number(event.target.value)) });
    });
    find("epsilon").addEventListener("change", (event) => this.#type(event.target.value));
    find("protect").addEventListener("change", (event) => {
      const chosen = event.target.value;
      const appliance = chosen.startsWith(ONE) ? chosen.slice(ONE.length) : null;
      Object.assign(this.settings, { protect: appliance ? "appliance" : chosen, appliance });
      this.#fillUnits();
      this.#set({});
    });
    find("mechanism").addEventListener("change", (event) => {
      this.#set({ mechanism: event.target.value });
      this.#showMechanism();
    });
    find("redraw").addEventListener("click", () => this.#set({ seed: this.settings.seed + 1 }));
  }

  #type(text) {
    const epsilon = typedNumber(text);
    const most = this.about.limits.max_epsilon;
    if (!(epsilon > 0 && epsilon <= most)) {
      this.problem(say("noise.problem", { most }));
      this.#showEpsilon();
      return;
    }
    this.#set({ epsilon });
  }

  #set(changes) {
    Object.assign(this.settings, changes);
    this.#showEpsilon();
    this.changed();
  }

  #showEpsilon() {
    const { epsilon, seed } = this.settings;
    const slider = find("slider");
    const position = positionOf(epsilon);
    slider.value = position;
    slider.style.setProperty("--share", `${(100 * position) / Number(slider.max)}%`);
    slider.setAttribute("aria-valuetext", say("noise.value", { epsilon: plain(epsilon), unit: this.unit() }));
    find("epsilon").value = bare(epsilon, 3);
    find("unit-sentence").textContent = say("noise.unit", { unit: this.unit() });
    find("every-now").textContent = this.everyWords();
    find("seed-note").textContent = say("noise.seed", { seed });
  }

  #showMechanism() {
    find("mechanism-hint").textContent = sayOr(`noise.mechanism_hints.${this.settings.mechanism}`, "");
  }

  /** The unit of protection in plain words. */
  unit() {
    const { protect, span, appliance } = this.settings;
    if (appliance) return say(`noise.units.one.${span}`, { name: appliance });
    const found = this.about.units.find((unit) => unit.protect === protect && unit.span === span);
    return sayOr(`noise.units.${protect}.${span}`, found?.label ?? span);
  }

  /** How often a reading is released, where that is not as metered. */
  everyWords() {
    const { every } = this.settings;
    return every ? say("every.now", { every: duration(every) }) : "";
  }

  /** The width of the noise and δ, once the server has told them. */
  showNoise({ scale_w, delta }) {
    const promise = delta ? ` ${say("noise.delta", { delta: delta.toExponential(0) })}` : "";
    find("noise-scale").textContent = say("noise.scale", { watts: watts(scale_w) }) + promise;
  }
}

const unique = (values) => [...new Set(values)];

const isMultiple = (every, interval) => every > interval && Math.abs(every / interval - Math.round(every / interval)) < 1e-9;
