// The part of the readings that is shown: all of them, or a window that can be moved.

import { create, fillSelect, find, show } from "./dom.js";
import { say } from "./texts.js";

const LENGTHS = [["hour", 3600], ["hours4", 14_400], ["day", 86_400], ["week", 604_800], ["month", 2_592_000]];
const LEAST_READINGS = 20;
// In a longer window single days cannot be told apart [s].
const CLEAR_S = 864_000;

/** A window of at most `most` readings; `changed` is called when somebody moves it. */
export class TraceWindow {
  start = 0;
  length = 0;

  constructor(store, most, changed) {
    this.most = most;
    this.changed = changed;
    this.select = create("select", { id: "window-length" });
    this.earlier = this.#button("trace.earlier", -1);
    this.later = this.#button("trace.later", 1);
    this.select.addEventListener("change", () => this.#choose(Number(this.select.value)));
    const label = create("label", { htmlFor: "window-length" }, say("trace.window"));
    this.select.setAttribute("aria-label", say("trace.window"));
    find("window").append(create("div", { className: "field inline" }, label, this.select), this.earlier, this.later);
    store.subscribe((names, { session, every }) => {
      if (names.has("session")) this.#open(session, every);
      else if (names.has("every") && session) this.#fit(every);
    });
  }

  #button(key, direction) {
    const button = create("button", { type: "button", className: "button small" }, say(key));
    button.addEventListener("click", () => this.#move(direction));
    return button;
  }

  /** Start with new readings: all of them, or the longest window in which single days show. */
  #open({ kept, interval_s }, every) {
    Object.assign(this, { readings: kept, interval_s, every, start: 0 });
    const choices = this.#choices();
    const clear = choices.filter(([count]) => count * interval_s <= CLEAR_S);
    this.#fill(choices, (clear.at(-1) ?? choices[0])[0]);
  }

  /** Move the window to the first of some readings, unless it already shows one of them. */
  goTo(places) {
    if (places.some((place) => place >= this.start && place < this.start + this.length)) return;
    const before = places[0] - this.length / 4;
    // A window of days starts where such a window started before, at the same time of day.
    const day = Math.max(1, Math.round(86_400 / this.interval_s));
    const step = this.length > day ? day : 1;
    const start = Math.max(0, Math.min(this.readings - this.length, step * Math.floor(before / step)));
    this.#shift(start);
  }

  /** A window must hold two released intervals, because then at least one of them is complete. */
  #fit(every) {
    this.every = every;
    const choices = this.#choices();
    const same = choices.find(([count]) => count >= this.length) ?? choices.at(-1);
    this.#fill(choices, same[0]);
  }

  #choices() {
    const { readings, most, interval_s, every } = this;
    const least = Math.max(LEAST_READINGS, (2 * (every ?? 0)) / interval_s);
    const lengths = LENGTHS.map(([name, seconds]) => [Math.round(seconds / interval_s), say(`trace.last.${name}`)]);
    const choices = lengths.filter(([count]) => count >= least && count <= Math.min(most, readings - 1));
    if (readings <= most) choices.push([readings, say("trace.whole")]);
    if (choices.length === 0) choices.push([most, say("trace.first", { count: most })]);
    return choices;
  }

  #fill(choices, length) {
    fillSelect(this.select, choices, length);
    show(find("window"), choices.length > 1 || this.readings > this.most);
    this.#take(length);
  }

  #take(length) {
    this.length = length;
    this.start = Math.min(this.start, this.readings - length);
    show(this.earlier, length < this.readings);
    show(this.later, length < this.readings);
    this.#showEnds();
  }

  #showEnds() {
    // The attribute `disabled` would take the keyboard focus away from the button.
    this.earlier.setAttribute("aria-disabled", String(this.start === 0));
    this.later.setAttribute("aria-disabled", String(this.start + this.length >= this.readings));
  }

  #choose(length) {
    this.#take(length);
    this.changed();
  }

  #move(direction) {
    const most = this.readings - this.length;
    this.#shift(Math.min(most, Math.max(0, this.start + direction * this.length)));
  }

  #shift(start) {
    if (start === this.start) return;
    this.start = start;
    this.#showEnds();
    this.changed();
  }

  /** The fields of a request that name the window. */
  request() {
    return { start: this.start, length: this.length };
  }
}

/** The start and end [ms] of a view of readings that are `interval_s` seconds long. */
export function extent({ metered, length }, interval_s) {
  const first = metered[0][0];
  const last = metered.at(-1)[0];
  const unbroken = first + 1000 * interval_s * length;
  if (unbroken > last) return [first, unbroken];
  // With gaps in between, the end is known only to within one stretch of the reduced curve.
  return [first, last + Math.max(1000 * interval_s, (last - first) / (metered.length - 1))];
}
