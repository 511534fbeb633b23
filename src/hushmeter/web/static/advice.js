// Advice: from what must stay hidden to the release that hides it at the least cost.

import { api } from "./api.js";
import { create, fillSelect, find } from "./dom.js";
import { outOf100 } from "./format.js";
import { say } from "./texts.js";

const SPANS = ["run", "day", "reading"];
const ODDS = [0.55, 0.6, 0.7, 0.8, 0.9];
const USUAL = 0.6;

/** Wires the form of the goal; `apply(option)` sets the controls to an answer. */
export class Advisor {
  #asked = 0;

  constructor(store, { apply, busy, problem }) {
    Object.assign(this, { store, apply, busy, problem });
    fillSelect(find("advice-odds"), ODDS.map((odds) => [odds, say("advice.at_most", { odds: outOf100(odds) })]), USUAL);
    find("advice-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#ask();
    });
    find("advice-form").addEventListener("change", ({ target }) => {
      if (target.id === "advice-appliance") this.#fillSpans();
      this.#clear();
    });
    store.subscribe((changed) => {
      if (changed.has("home")) this.#fillAppliances();
      // An old answer does not hold for other readings, another home or another price.
      if (["home", "session", "price_per_kwh"].some((name) => changed.has(name))) this.#clear();
    });
  }

  #fillAppliances() {
    const select = find("advice-appliance");
    const names = this.store.values.home.appliances.map(({ name }) => name);
    const chosen = names.includes(select.value) ? select.value : names[0];
    fillSelect(select, names.map((name) => [name, name]), chosen);
    this.#fillSpans();
  }

  /** A run can be hidden only if its usual length is known. */
  #fillSpans() {
    const select = find("advice-span");
    const { appliances } = this.store.values.home;
    const { run_s } = appliances.find(({ name }) => name === find("advice-appliance").value);
    const offered = SPANS.filter((span) => span !== "run" || run_s);
    const chosen = offered.includes(select.value) ? select.value : offered[0];
    fillSelect(select, offered.map((span) => [span, say(`noise.spans.${span}`)]), chosen);
  }

  #clear() {
    this.#asked += 1;
    find("advice-answer").replaceChildren();
  }

  async #ask() {
    this.#clear();
    const asked = this.#asked;
    const { home, session, price_per_kwh } = this.store.values;
    const appliance = find("advice-appliance").value;
    const span = find("advice-span").value;
    const goal = { appliance, span, max_odds: Number(find("advice-odds").value) };
    find("advice-answer").replaceChildren(create("p", {}, say("advice.wait")));
    this.busy(true);
    try {
      const { sentences, options } = await api.advise({ home, trace: session.id, price_per_kwh, ...goal });
      if (asked === this.#asked) this.#answer(sentences, { ...options[0], appliance, span });
    } catch (error) {
      // Nobody waits for the answer to an earlier goal, nor for its error.
      if (asked === this.#asked) {
        this.#clear();
        this.problem(error.message);
      }
    } finally {
      this.busy(false);
    }
  }

  #answer([first, ...cost], option) {
    const use = create("button", { type: "button", className: "button primary", id: "advice-apply" }, say("advice.apply"));
    use.addEventListener("click", () => this.apply(option));
    find("advice-answer").replaceChildren(
      create("p", { className: "stake", lang: "en" }, first),
      create("p", { className: "soft", lang: "en" }, cost.join(" ")),
      use,
    );
  }
}
