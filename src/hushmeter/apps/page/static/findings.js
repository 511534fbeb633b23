// What the readings show to anybody who has them: a list, and marks in the chart of the readings.

import { api } from "./api.js";
import { create, fillList, find, show } from "./dom.js";
import { say, told } from "./texts.js";

// Number of findings that a phone shows at once; the style sheet has the same number.
const SHOWN = 4;

/** Asks for the findings of new readings and lists them; a click shows one of them in the chart. */
export class FindingsList {
  constructor(store, { busy, problem, goTo }) {
    Object.assign(this, { store, busy, problem, goTo });
    find("findings-all").addEventListener("click", () => {
      find("findings").classList.add("all");
      show(find("findings-all"), false);
      find("findings").children[SHOWN].querySelector("button")?.focus();
    });
    store.subscribe((changed) => {
      if (changed.has("session")) this.#ask();
      if (changed.has("findings") || changed.has("finding")) this.#draw();
    });
  }

  async #ask() {
    const { session, zone } = this.store.values;
    find("findings").classList.remove("all");
    this.store.set({ findings: null, finding: null });
    const turn = this.store.expect("findings");
    this.busy(true);
    try {
      const findings = await api.findings({ trace: session.id, tz: zone });
      if (!turn.isCurrent()) return;
      this.problem("", "findings");
      this.store.set({ findings });
    } catch (error) {
      if (turn.isCurrent()) this.problem(error.message, "findings");
    } finally {
      this.busy(false);
    }
  }

  #draw() {
    const { findings, finding } = this.store.values;
    const list = findings?.findings ?? [];
    find("findings").replaceChildren(...list.map((one, index) => this.#entry(one, index, finding)));
    show(find("findings"), list.length > 0);
    find("findings-all").textContent = say("findings.all", { count: list.length });
    show(find("findings-all"), list.length > SHOWN && !find("findings").classList.contains("all"));
    show(find("findings-none"), list.length === 0);
    find("findings-none").textContent = say(findings ? "findings.none" : "findings.wait");
    fillList(find("findings-notes"), [...(findings?.notes ?? []), ...(findings?.withheld ?? [])].map(told));
  }

  #entry({ sentence, marks, places }, index, chosen) {
    const { text, lang } = told(sentence);
    if (marks.length === 0) return create("li", { lang }, text);
    const button = create("button", { type: "button", className: "finding", lang }, text);
    button.setAttribute("aria-pressed", String(index === chosen));
    button.addEventListener("click", () => this.#choose(index, places));
    return create("li", {}, button);
  }

  #choose(index, places) {
    const finding = this.store.values.finding === index ? null : index;
    this.store.set({ finding });
    find("findings").children[index].querySelector("button").focus();
    if (finding !== null) this.goTo(places);
  }
}

/** The marks to draw: those of the chosen finding, or of all; each with the number in the list. */
export function marksOf({ findings, finding }) {
  const list = findings?.findings ?? [];
  return list.flatMap(({ marks }, index) =>
    finding === null || finding === index ? marks.map(([start, end]) => ({ start, end, number: index + 1 })) : [],
  );
}
