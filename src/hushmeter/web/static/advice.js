// From what must stay hidden to the release that hides it at the least cost.

import { api } from "./api.js";
import { create, fillSelect, find } from "./dom.js";
import { ofHundred } from "./format.js";
import { say } from "./texts.js";

const SPANS = ["run", "day", "reading"];
const ODDS = [0.55, 0.6, 0.7, 0.8, 0.9];
const USUAL = 0.6;

/** Wires the goal; `request()` gives home and readings, `apply(option)` sets the controls to one. */
export class Advisor {
  #asked = 0;

  constructor({ request, apply, busy, problem }) {
    Object.assign(this, { request, apply, busy, problem });
    fillSelect(find("advice-odds"), ODDS.map((odds) => [odds, say("advice.at_most", { odds: ofHundred(odds) })]), USUAL);
    find("advice-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#ask();
    });
    find("advice-form").addEventListener("change", (event) => {
      if (event.target.id === "advice-appliance") this.#fillSpans();
      this.#clear();
    });
  }

  /** Another home: other appliances to hide, and an old answer no longer holds. */
  setHome({ appliances }) {
    const select = find("advice-appliance");
    const names = appliances.map(({ name }) => name);
    const chosen = names.includes(select.value) ? select.value : names[0];
    fillSelect(select, names.map((name) => [name, name]), chosen);
    this.appliances = appliances;
    this.#fillSpans();
    this.#clear();
  }

  /** Without the usual length of a run there is no run to hide. */
  #fillSpans() {
    const select = find("advice-span");
    const { run_s } = this.appliances.find(({ name }) => name === find("advice-appliance").value);
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
    const appliance = find("advice-appliance").value;
    const span = find("advice-span").value;
    const goal = { appliance, span, max_odds: Number(find("advice-odds").value) };
    find("advice-answer").replaceChildren(create("p", {}, say("advice.wait")));
    this.busy(true);
    try {
      const { sentences, options } = await api.advise({ ...this.request(), ...goal });
      if (asked === this.#asked) this.#answer(sentences, { ...options[0], appliance, span });
    } catch (error) {
      if (asked === this.#asked) this.#clear();
      this.problem(error.message);
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
