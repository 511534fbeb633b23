// The card of the home: its appliances are shown, edited, saved, loaded and learnt here.

import { api } from "./api.js";
import { create, find, markInvalid, saveFile, show } from "./dom.js";
import { bare, typedNumber, watts } from "./format.js";
import { homeChange } from "./store.js";
import { say } from "./texts.js";

const EMPTY = { name: "home", tolerance: 20, base_load: 0, appliances: [] };
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
    if (home === this.#own && home) return;
    find("home-tolerance").value = bare(home?.tolerance ?? EMPTY.tolerance);
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
    const { appliances } = home ?? EMPTY;
    const key = appliances.length === 1 ? "home.title_one" : "home.title";
    find("home-title").textContent = say(key, { count: appliances.length });
    find("home-source").textContent = homeSource
      ? say(`home.source.${homeSource.kind}`, { name: homeSource.name })
      : say("home.source.none");
    show(find("home-save"), home !== null);
    find("home-chips").replaceChildren(
      ...appliances.map((appliance) => {
        const words = { watts: watts(atMostWatts(appliance)), source: say(`home.origin.${appliance.source ?? "typed"}`) };
        const text = create("span", { className: "soft" }, say("home.chip", words));
        return create("li", {}, `${appliance.name} `, text);
      }),
    );
  }

  #drawRows() {
    this.#drawn = (this.store.values.home ?? EMPTY).appliances;
    find("home-rows").replaceChildren(...this.#drawn.map((appliance, index) => this.#row(appliance, index)));
  }

  #row(appliance, index) {
    const number = index + 1;
    const name = create("input", { value: appliance.name, autocomplete: "off", maxLength: 60, className: "appliance-name" });
    name.setAttribute("aria-label", say("home.name_of", { number }));
    const field = (className, value, key) => {
      const input = create("input", { value, inputMode: "decimal", autocomplete: "off", className });
      input.setAttribute("aria-label", say(key, { number }));
      return input;
    };
    const power = field("appliance-watts", bare(atMostWatts(appliance)), "home.watts_of");
    const run = field("appliance-run", runMinutes(appliance), "home.run_of");
    const words = say("home.remove_of", { name: appliance.name });
    const remove = create("button", { type: "button", className: "button remove", title: words }, "×");
    remove.setAttribute("aria-label", words);
    remove.addEventListener("click", () => this.#remove(index));
    const unit = (input, text) => create("span", { className: "with-unit" }, input, text);
    return create("div", { className: "appliance" }, name, unit(power, " W"), unit(run, " min"), remove);
  }

  #add() {
    const { appliances } = this.store.values.home ?? EMPTY;
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
    this.#change({ appliances: appliances.toSpliced(index, 1) });
    const rows = find("home-rows").children;
    const next = rows[Math.min(index, rows.length - 1)]?.querySelector("button") ?? find("home-add");
    next.focus();
  }

  /** Change the home and draw its rows again. */
  #change(changes) {
    const { values } = this.store;
    const home = { ...(values.home ?? EMPTY), ...changes };
    this.store.set(homeChange(home.appliances.length > 0 ? home : null, { kind: "edited" }, values));
  }

  /** Take over what the fields say, if all of it is valid; the fields themselves are left alone. */
  #edit() {
    const entries = [...find("home-rows").children].map((row) => ({
      name: row.querySelector(".appliance-name"),
      power: row.querySelector(".appliance-watts"),
      run: row.querySelector(".appliance-run"),
    }));
    if (entries.length === 0) return;
    const tolerance = find("home-tolerance");
    const wrong = findProblem(entries, tolerance);
    for (const input of [...entries.flatMap(({ name, power, run }) => [name, power, run]), tolerance]) {
      markInvalid(input, input === wrong?.input);
    }
    this.#tell(wrong?.sentence ?? "");
    if (wrong) return;
    const { values } = this.store;
    const appliances = entries.map(({ name, power, run }, index) => {
      const drawn = { ...this.#drawn[index], name: name.value.trim() };
      return withRun(withWatts(drawn, typedNumber(power.value)), run.value.trim() === runMinutes(this.#drawn[index]) ? null : typedNumber(run.value));
    });
    // An appliance that is protected stays so when it gets another name.
    const renamed = new Map(values.home.appliances.map(({ name }, place) => [name, appliances[place]?.name]));
    const hide = values.hide.map((name) => renamed.get(name));
    this.#own = { ...values.home, appliances, tolerance: typedNumber(tolerance.value) };
    this.store.set({
      home: this.#own,
      homeSource: { kind: "edited" },
      appliance: renamed.get(values.appliance) ?? null,
      hide: hide.every((name, i) => name === values.hide[i]) ? values.hide : hide,
    });
  }

  #tell(sentence) {
    find("home-problem").textContent = sentence;
  }

  async #save() {
    saveFile(say("home.file_name"), await api.writeHome(this.store.values.home, this.store.values.session?.id), "application/toml");
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
      this.problem("", "home");
    } catch (error) {
      this.problem(error.message, "home");
    } finally {
      this.busy(false);
    }
  }
}

/** The largest power [W] of an appliance, which is what a release hides: one value everywhere. */
export function atMostWatts({ protected_w, high, levels, watts: mean, source }) {
  if (source === "learnt" && protected_w) return protected_w;
  return high ?? (levels?.length ? Math.max(...levels) : mean);
}

/** The largest length of a run [min] as text for its field; empty if it is unknown. */
function runMinutes({ protected_run_s, run_high_s, run_s, source }) {
  const seconds = (source === "learnt" && protected_run_s) || (run_high_s ?? run_s);
  return seconds ? bare(seconds / 60, 4) : "";
}

/**
 * The appliance with the largest watts that somebody entered. Its other powers keep their
 * proportions; but powers that were learnt from readings are dropped with the learnt watts. The
 * server decides which of the numbers that are left were learnt.
 */
export function withWatts(appliance, value) {
  const before = atMostWatts(appliance);
  if (value === Number(bare(before))) return appliance;
  if (appliance.source === "learnt") {
    const { levels: _, high: __, max_power: ___, energy_wh: ____, protected_w: _____, ...rest } = appliance;
    return { ...rest, watts: value };
  }
  const factor = value / before;
  const mean = appliance.watts === before ? value : appliance.watts * factor;
  const { protected_w: _, ...rest } = appliance;
  const changed = { ...rest, watts: mean, source: "typed" };
  if (appliance.levels?.length) changed.levels = appliance.levels.map((level) => level * factor);
  for (const name of PROPORTIONAL) if (appliance[name]) changed[name] = appliance[name] * factor;
  return changed;
}

/** The appliance with the longest run [min] that somebody entered; null leaves it as it is. */
export function withRun(appliance, minutes) {
  if (minutes === null) return appliance;
  const { run_s: _, run_high_s: __, energy_wh: ___, protected_run_s: ____, ...rest } = appliance;
  const run = Number.isNaN(minutes) ? {} : { run_s: 60 * minutes };
  return { ...rest, ...run };
}

function findProblem(entries, tolerance) {
  const names = new Set();
  for (const [index, { name, power, run }] of entries.entries()) {
    const text = name.value.trim();
    if (!text) return { input: name, sentence: say("home.problem.name", { number: index + 1 }) };
    if (names.has(text)) return { input: name, sentence: say("home.problem.same", { name: text }) };
    names.add(text);
    if (!(typedNumber(power.value) > 0)) return { input: power, sentence: say("home.problem.watts", { name: text }) };
    const length = run.value.trim();
    if (length && !(typedNumber(length) > 0)) return { input: run, sentence: say("home.problem.run", { name: text }) };
  }
  if (!(typedNumber(tolerance.value) > 0)) return { input: tolerance, sentence: say("home.problem.tolerance") };
  return null;
}
