// What somebody has, what nobody should be able to tell, and what the data is for. From these
// choices the server computes a plan: the noise that hides the chosen things at the least cost.

import { Latest, api } from "./api.js";
import { create, fillRadios, fillSelect, find, markInvalid, show } from "./dom.js";
import { outOf100, typedNumber, watts } from "./format.js";
import { atMostWatts } from "./home_editor.js";
import { PEOPLE, PLAN_VALUES, homeChange, isWish, wishRequest } from "./store.js";
import { say, told } from "./texts.js";

const ODDS = [0.55, 0.6, 0.7, 0.8, 0.9];
const PURPOSES = ["hour", "day", "month", "profile", "register"];
// So many entries of the catalogue are shown at once; the others can be unfolded.
const SHOWN = 8;
const TOLERANCE_W = 20;
const MOST_KW = 100;

/** Draws the choices from the store and asks for a plan whenever one of them changes. */
export class Wishes {
  constructor(store, about, { busy, problem }) {
    Object.assign(this, { store, about, problem });
    this.plans = new Latest((signal) => this.#refresh(signal), {
      onBusy: busy,
      onError: (error) => problem(error.message, "plan"),
    });
    const odds = ODDS.map((share) => [share, say("wishes.at_most", { odds: outOf100(share) })]);
    fillSelect(find("odds"), odds, store.values.odds);
    find("odds").addEventListener("change", ({ target }) => store.set({ odds: Number(target.value) }));
    find("own-noise-back").addEventListener("click", () => this.#replan());
    find("size").addEventListener("submit", (event) => this.#addSized(event));
    this.#drawPurposes();
    store.subscribe((changed) => this.#changed(changed));
    this.#draw();
  }

  #changed(changed) {
    const { protect, epsilon, hide } = this.store.values;
    if (changed.has("home") || changed.has("hide") || changed.has("findings")) this.#draw();
    if (changed.has("purpose")) this.#drawPurposes();
    if (!PLAN_VALUES.some((name) => changed.has(name))) return;
    // A plan that is under way answers other wishes, or is about other readings.
    this.plans.cancel();
    // Noise that was chosen by hand stays, until somebody changes what must stay hidden.
    if (protect === "use" || changed.has("hide") || (epsilon === null && hide.length > 0)) this.#replan();
  }

  /** Drop the old plan at once, so that nothing can be released with it, and ask for a new one. */
  #replan() {
    const { hide, home } = this.store.values;
    this.problem("", "plan");
    this.store.set({ plan: null, epsilon: null, protect: "use", span: "run", appliance: null });
    if (hide.length > 0 && (home || hide.every(isWish))) {
      this.turn = this.store.expect("epsilon", "mechanism", "every", "protect", "span", "appliance");
      this.plans.ask();
    }
  }

  async #refresh(signal) {
    const { turn } = this;
    const { session, home, zone } = this.store.values;
    if (!turn.isCurrent()) return;
    const { receipt } = await api.plan({ trace: session.id, home, tz: zone, ...wishRequest(this.store.values) }, signal);
    if (!turn.isCurrent()) return;
    this.problem("", "plan");
    const { epsilon, cells, tables: [{ table, noise }, ...others] } = receipt;
    const mechanism = noise?.mechanism ?? this.store.values.mechanism;
    // Several tables have cells of an hour, whatever the readings are.
    const alone = table === "cells" && others.length === 0;
    const every = !alone || cells.interval_s === session.interval_s ? null : cells.interval_s;
    this.store.set({ plan: { epsilon, mechanism, every }, epsilon, mechanism, every, protect: "use", span: "run" });
  }

  #drawPurposes() {
    const { store } = this;
    const choices = PURPOSES.map((purpose) => [purpose, say(`wishes.purposes.${purpose}`)]);
    fillRadios(find("purposes"), "purpose", choices, store.values.purpose, (purpose) => store.set({ purpose }));
  }

  #draw() {
    const { home, homeSource, hide, findings } = this.store.values;
    fillChips(find("people"), PEOPLE.map((words) => this.#person(words, hide.includes(words))));
    // A wish of the household chooses itself what the data is for.
    show(find("purposes"), !hide.some(isWish));
    const appliances = home?.appliances ?? [];
    const owned = new Map(appliances.map((one) => [one.name, one]));
    const seen = new Set(findings?.findings.flatMap((one) => one.appliances) ?? []);
    const typical = this.about.catalogue.map((one) => owned.get(one.name) ?? one);
    const others = appliances.filter(({ name }) => !typical.some((one) => one.name === name));
    const isFirst = ({ name }, index) => index < SHOWN || owned.has(name);
    const chip = (one) => this.#chip("have", one, owned.has(one.name), (on) => this.#own(one, on), seen.has(one.name));
    const rest = typical.filter((one, index) => !isFirst(one, index));
    const first = [...others, ...typical.filter(isFirst)];
    const words = { count: rest.length, seen: rest.filter(({ name }) => seen.has(name)).length };
    const more = rest.length > 0 ? say(words.seen > 0 ? "wishes.more_seen" : "wishes.more", words) : "";
    fillChips(find("have"), first.map(chip), rest.map(chip), more);
    find("seen-hint").textContent = seen.size > 0 ? say("wishes.seen") : "";
    const hidden = new Set(hide);
    const offered = appliances.map((one) => this.#chip("hide", one, hidden.has(one.name), (on) => this.#hide(one.name, on)));
    // What somebody ticked above is hidden; a home from elsewhere has appliances that need not be.
    const other = homeSource?.kind !== "ticked" || appliances.some(({ name }) => !hidden.has(name));
    fillChips(find("hide"), other ? offered : []);
  }

  /** A wish in the words of the household. */
  #person(words, checked) {
    const input = create("input", { type: "checkbox", checked, value: words, name: "people" });
    input.addEventListener("change", () => this.#hide(words, input.checked));
    return create("label", { className: "chip" }, input, create("span", { className: "face" }, say(`wishes.people.${words}`)));
  }

  #chip(list, appliance, checked, choose, seen = false) {
    const input = create("input", { type: "checkbox", checked, value: appliance.name, name: list });
    input.addEventListener("change", () => choose(input.checked));
    // The numbers stand in the first list; the second one only names the same appliances.
    const known = checked || !this.about.sizes[appliance.name];
    const size = list === "have" ? [create("span", { className: "soft" }, known ? watts(atMostWatts(appliance)) : say("wishes.size_open"))] : [];
    const mark = seen ? [create("span", { className: "off-screen" }, say("wishes.seen_one"))] : [];
    const text = create("span", { className: "face" }, `${told(appliance.name).text} `, ...size, ...mark);
    return create("label", { className: seen ? "chip seen" : "chip" }, input, text);
  }

  /** Ask for the power of an appliance that may be small or large: the noise follows from it. */
  #askSize(name) {
    show(find("size"), name !== null);
    this.asking = name;
    if (name === null) return;
    const [low, high] = this.about.sizes[name];
    find("size-label").textContent = say("wishes.size", { name: told(name).text });
    find("size-hint").textContent = say("wishes.size_hint", { low: watts(low), high: watts(high) });
    find("size-kw").value = "";
    find("size-kw").focus();
  }

  async #addSized(event) {
    event.preventDefault();
    const kilowatts = typedNumber(find("size-kw").value);
    const valid = kilowatts > 0 && kilowatts <= MOST_KW;
    markInvalid(find("size-kw"), !valid);
    this.problem(valid ? "" : say("wishes.size_problem", { name: told(this.asking).text }), "size");
    if (!valid) return;
    try {
      const appliance = await api.appliance(`${this.asking} ${kilowatts} kW`);
      this.#askSize(null);
      this.#own(appliance, true);
    } catch (error) {
      this.problem(error.message, "size");
    }
  }

  /** Add an appliance of the catalogue to the home and hide it, or remove it. */
  #own(appliance, on) {
    const { values } = this.store;
    const asks = on && this.about.sizes[appliance.name] && appliance.source === "catalogue" && appliance.high !== null;
    this.#askSize(asks ? appliance.name : null);
    if (asks) return;
    const before = values.home?.appliances ?? [];
    const appliances = on ? [...before, appliance] : before.filter(({ name }) => name !== appliance.name);
    const base = values.home ?? { name: "home", tolerance: TOLERANCE_W, base_load: 0 };
    const home = appliances.length > 0 ? { ...base, appliances } : null;
    const changes = homeChange(home, { kind: "ticked" }, values);
    // One tick is enough: the second list takes it back.
    this.store.set(on ? { ...changes, hide: [...changes.hide.filter((name) => name !== appliance.name), appliance.name] } : changes);
  }

  #hide(name, on) {
    const { hide } = this.store.values;
    this.store.set({ hide: on ? [...hide, name] : hide.filter((one) => one !== name) });
  }
}

/** Fill a fieldset with chips; the one with the keyboard focus keeps it, and `rest` is folded. */
function fillChips(fieldset, first, rest = [], summary = "") {
  const focused = document.activeElement?.closest?.(".chips") === fieldset ? document.activeElement.value : null;
  const more = fieldset.querySelector("details");
  const wasOpen = more?.open ?? false;
  fieldset.querySelectorAll(".chip, details").forEach((element) => element.remove());
  fieldset.append(...first);
  if (rest.length > 0) {
    const details = create("details", { className: "quiet more", open: wasOpen }, create("summary", {}, summary));
    details.append(create("div", { className: "chips" }, ...rest));
    fieldset.append(details);
  }
  if (focused !== null) fieldset.querySelector(`input[value="${CSS.escape(focused)}"]`)?.focus();
  show(fieldset, first.length + rest.length > 0);
}
