// The card of the home: its appliances are shown, edited, saved, loaded and learnt here.

import { api } from "./api.js";
import { create, find, markInvalid, saveFile, show } from "./dom.js";
import { bare, typedNumber, watts } from "./format.js";
import { homeChange } from "./store.js";
import { say } from "./texts.js";

// Powers and energies of an appliance that keep their proportion to its watts.
const PROPORTIONAL = ["high", "max_power", "energy_wh"];

/** Draws the home of the store and writes every valid edit into it. */
export class HomeEditor {
  // The appliances as they were when the rows were drawn; edits are relative to them.
  #drawn = [];
  #own = null;

  constructor(store, { busy, problem }) {
    Object.assign(this, { store, busy, problem });
    find("home-form").addEventListener("submit", (event) => event.preventDefault());
    find("home-form").addEventListener("input", () => this.#edit());
    find("home-edit").addEventListener("click", () => this.#toggle());
    find("home-add").addEventListener("click", () => this.#add());
    find("home-save").addEventListener("click", () => this.#report(() => this.#save()));
    find("home-file").addEventListener("change", ({ target }) => this.#report(() => this.#load(target)));
    find("home-learn").addEventListener("click", () => this.#report(() => this.#learn()));
    store.subscribe((changed) => {
      if (changed.has("session")) this.#showLearn();
      if (changed.has("home") || changed.has("homeSource")) this.#draw();
    });
  }

  #draw() {
    const { home } = this.store.values;
    this.#showSummary();
    if (home === this.#own) return;
    find("home-tolerance").value = bare(home.tolerance);
    markInvalid(find("home-tolerance"), false);
    this.#drawRows();
    this.#tell("");
  }

  #showLearn() {
    const { session, isExample } = this.store.values;
    show(find("home-learn"), session.has_truth && !isExample);
  }

  #toggle() {
    const form = find("home-form");
    show(form, form.hidden);
    find("home-edit").setAttribute("aria-expanded", String(!form.hidden));
  }

  #showSummary() {
    const { home, homeSource } = this.store.values;
    const { appliances } = home;
    const key = appliances.length === 1 ? "home.title_one" : "home.title";
    find("home-title").textContent = say(key, { count: appliances.length });
    find("home-source").textContent = say(`home.source.${homeSource.kind}`, { name: homeSource.name });
    find("home-chips").replaceChildren(
      ...appliances.map((appliance) => {
        const words = { watts: watts(appliance.watts), source: say(`home.origin.${appliance.source ?? "typed"}`) };
        const text = create("span", { className: "soft" }, say("home.chip", words));
        return create("li", {}, `${appliance.name} `, text);
      }),
    );
  }

  #drawRows() {
    this.#drawn = this.store.values.home.appliances;
    find("home-rows").replaceChildren(...this.#drawn.map((appliance, index) => this.#row(appliance, index)));
  }

  #row(appliance, index) {
    const number = index + 1;
    const name = create("input", { value: appliance.name, autocomplete: "off", maxLength: 60, className: "appliance-name" });
    name.setAttribute("aria-label", say("home.name_of", { number }));
    const power = create("input", { value: bare(appliance.watts), inputMode: "decimal", autocomplete: "off", className: "appliance-watts" });
    power.setAttribute("aria-label", say("home.watts_of", { number }));
    const words = say("home.remove_of", { name: appliance.name });
    const remove = create("button", { type: "button", className: "button remove", title: words }, "×");
    remove.setAttribute("aria-label", words);
    remove.addEventListener("click", () => this.#remove(index));
    return create("div", { className: "appliance" }, name, create("span", { className: "with-unit" }, power, " W"), remove);
  }

  #add() {
    const { appliances } = this.store.values.home;
    const taken = new Set(appliances.map(({ name }) => name));
    let number = appliances.length + 1;
    while (taken.has(say("home.new_name", { number }))) number += 1;
    this.#change({ appliances: [...appliances, { name: say("home.new_name", { number }), watts: 1000 }] });
    const added = find("home-rows").lastElementChild.querySelector("input");
    added.focus();
    added.select();
  }

  #remove(index) {
    const { appliances } = this.store.values.home;
    const kept = appliances.toSpliced(index, 1);
    if (kept.length === 0) {
      this.#tell(say("home.problem.none"));
      return;
    }
    this.#change({ appliances: kept });
    const rows = find("home-rows").children;
    rows[Math.min(index, rows.length - 1)].querySelector("button").focus();
  }

  /** Change the home and draw its rows again. */
  #change(changes) {
    const { values } = this.store;
    this.store.set(homeChange({ ...values.home, ...changes }, { kind: "edited" }, values));
  }

  /** Take over what the fields say, if all of it is valid; the fields themselves are left alone. */
  #edit() {
    const entries = [...find("home-rows").children].map((row) => ({
      name: row.querySelector(".appliance-name"),
      power: row.querySelector(".appliance-watts"),
    }));
    const tolerance = find("home-tolerance");
    const wrong = findProblem(entries, tolerance);
    for (const input of [...entries.flatMap(({ name, power }) => [name, power]), tolerance]) {
      markInvalid(input, input === wrong?.input);
    }
    this.#tell(wrong?.sentence ?? "");
    if (wrong) return;
    const { values } = this.store;
    const appliances = entries.map(({ name, power }, index) =>
      withWatts({ ...this.#drawn[index], name: name.value.trim() }, typedNumber(power.value)),
    );
    // An appliance that is protected alone stays so when it gets another name.
    const place = values.home.appliances.findIndex(({ name }) => name === values.appliance);
    this.#own = { ...values.home, appliances, tolerance: typedNumber(tolerance.value) };
    this.store.set({ home: this.#own, homeSource: { kind: "edited" }, appliance: appliances[place]?.name ?? null });
  }

  #tell(sentence) {
    find("home-problem").textContent = sentence;
  }

  async #save() {
    saveFile(say("home.file_name"), await api.writeHome(this.store.values.home), "application/toml");
  }

  async #load(input) {
    const [file] = input.files;
    if (!file) return;
    const turn = this.store.expect("home");
    try {
      const home = await api.readHome(file);
      if (turn.isCurrent()) this.store.set(homeChange(home, { kind: "loaded", name: file.name }, this.store.values));
    } finally {
      // The same file can then be chosen again.
      input.value = "";
    }
  }

  async #learn() {
    const turn = this.store.expect("home");
    const home = await api.learnHome(this.store.values.session.id);
    if (turn.isCurrent()) this.store.set(homeChange(home, { kind: "file" }, this.store.values));
  }

  async #report(task) {
    this.busy(true);
    try {
      await task();
    } catch (error) {
      this.problem(error.message);
    } finally {
      this.busy(false);
    }
  }
}

/**
 * The appliance with watts that somebody entered. Its levels and upper values keep their
 * proportions; but numbers that were learnt from readings are dropped with the learnt watts.
 */
export function withWatts(appliance, value) {
  if (value === appliance.watts) return appliance;
  if (appliance.source === "learnt") return { name: appliance.name, watts: value, source: "typed" };
  const factor = value / appliance.watts;
  const changed = { ...appliance, watts: value, source: "typed" };
  if (appliance.levels?.length) changed.levels = appliance.levels.map((level) => level * factor);
  for (const name of PROPORTIONAL) if (appliance[name]) changed[name] = appliance[name] * factor;
  return changed;
}

function findProblem(entries, tolerance) {
  const names = new Set();
  for (const [index, { name, power }] of entries.entries()) {
    const text = name.value.trim();
    if (!text) return { input: name, sentence: say("home.problem.name", { number: index + 1 }) };
    if (names.has(text)) return { input: name, sentence: say("home.problem.same", { name: text }) };
    names.add(text);
    if (!(typedNumber(power.value) > 0)) return { input: power, sentence: say("home.problem.watts", { name: text }) };
  }
  if (!(typedNumber(tolerance.value) > 0)) return { input: tolerance, sentence: say("home.problem.tolerance") };
  return null;
}
