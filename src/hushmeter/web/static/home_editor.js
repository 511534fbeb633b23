// The appliances of the home: shown, edited, saved, loaded, learnt.

import { api } from "./api.js";
import { create, find, markInvalid, saveFile, show } from "./dom.js";
import { bare, typedNumber, watts } from "./format.js";
import { say } from "./texts.js";

/** Wires the card of the home; `changed(home)` is called with every valid home. */
export class HomeEditor {
  constructor({ changed, problem }) {
    this.changed = changed;
    this.problem = problem;
    this.home = null;
    find("home-form").addEventListener("submit", (event) => event.preventDefault());
    find("home-form").addEventListener("change", () => this.#edited());
    find("home-edit").addEventListener("click", () => this.#toggle());
    find("home-add").addEventListener("click", () => this.#add());
    find("home-save").addEventListener("click", () => this.#guard(() => this.#save()));
    find("home-file").addEventListener("change", (event) => this.#guard(() => this.#load(event.target)));
    find("home-learn").addEventListener("click", () => this.#guard(() => this.#learn()));
  }

  /** Show a home; `source` names where it is from, `trace` the readings it may be learnt from. */
  set(home, source, { trace = null, canLearn = false, name = "" } = {}) {
    this.home = structuredClone(home);
    if (trace !== null) this.trace = trace;
    if (trace !== null) show(find("home-learn"), canLearn);
    find("home-tolerance").value = bare(this.home.tolerance);
    this.#showRows();
    this.#showSummary(say(`home.source.${source}`, { name }));
    this.#tell("");
  }

  #toggle() {
    const form = find("home-form");
    show(form, form.hidden);
    find("home-edit").setAttribute("aria-expanded", String(!form.hidden));
  }

  #showSummary(source) {
    const { appliances } = this.home;
    const key = appliances.length === 1 ? "home.title_one" : "home.title";
    find("home-title").textContent = say(key, { count: appliances.length });
    find("home-source").textContent = source;
    find("home-chips").replaceChildren(
      ...appliances.map((appliance) => {
        const text = create("span", { className: "soft" }, watts(appliance.watts));
        return create("li", {}, `${appliance.name} `, text);
      }),
    );
  }

  #showRows() {
    find("home-rows").replaceChildren(...this.home.appliances.map((appliance, index) => this.#row(appliance, index)));
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
    const number = this.home.appliances.length + 1;
    this.home.appliances.push({ name: say("home.new_name", { number }), watts: 1000 });
    this.#showRows();
    const added = find("home-rows").lastElementChild.querySelector("input");
    added.focus();
    added.select();
    this.#edited();
  }

  #remove(index) {
    const kept = this.home.appliances.toSpliced(index, 1);
    if (kept.length === 0) {
      this.#tell(say("home.problem.none"));
      return;
    }
    this.home.appliances = kept;
    this.#showRows();
    const rows = find("home-rows").children;
    rows[Math.min(index, rows.length - 1)].querySelector("button").focus();
    this.#edited();
  }

  #edited() {
    const rows = [...find("home-rows").children];
    const entries = rows.map((row) => ({
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
    entries.forEach(({ name, power }, index) => {
      const old = this.home.appliances[index];
      this.home.appliances[index] = withWatts({ ...old, name: name.value.trim() }, typedNumber(power.value));
    });
    this.home.tolerance = typedNumber(tolerance.value);
    this.#showSummary(say("home.source.edited"));
    this.changed(structuredClone(this.home));
  }

  #tell(sentence) {
    find("home-problem").textContent = sentence;
  }

  async #save() {
    saveFile(say("home.file_name"), await api.writeHome(this.home), "application/toml");
  }

  async #load(input) {
    const [file] = input.files;
    if (!file) return;
    const home = await api.readHome(file);
    input.value = "";
    this.set(home, "loaded", { name: file.name });
    this.changed(structuredClone(this.home));
  }

  async #learn() {
    this.set(await api.learnHome(this.trace), "file");
    this.changed(structuredClone(this.home));
  }

  async #guard(task) {
    try {
      await task();
    } catch (error) {
      this.problem(error.message);
    }
  }
}

/** The appliance with new watts; several levels keep their proportions. */
export function withWatts(appliance, value) {
  const factor = value / appliance.watts;
  const levels = appliance.levels?.length ? { levels: appliance.levels.map((level) => level * factor) } : {};
  return { ...appliance, ...levels, watts: value };
}

function findProblem(entries, tolerance) {
  const seen = new Set();
  for (const [index, { name, power }] of entries.entries()) {
    const text = name.value.trim();
    if (!text) return { input: name, sentence: say("home.problem.name", { number: index + 1 }) };
    if (seen.has(text)) return { input: name, sentence: say("home.problem.same", { name: text }) };
    seen.add(text);
    if (!(typedNumber(power.value) > 0)) return { input: power, sentence: say("home.problem.watts", { name: text }) };
  }
  if (!(typedNumber(tolerance.value) > 0)) return { input: tolerance, sentence: say("home.problem.tolerance") };
  return null;
}
