// Connects the parts of the page: they write choices into the store, and the panels show answers.

import { Latest, api } from "./api.js";
import { NoiseControls } from "./controls.js";
import { create, fillList, fillSelect, find, markInvalid, show } from "./dom.js";
import { Download } from "./download.js";
import { loadPlotly } from "./drawing.js";
import { FindingsList, marksOf } from "./findings.js";
import { duration, plain, stretch, typedNumber } from "./format.js";
import { HomeEditor } from "./home_editor.js";
import { Panels } from "./panels.js";
import { inPageWords, wireSources } from "./sources.js";
import { DEFAULTS, DRAWN_VALUES, Store, isOwnNoise, isWish, noiseRequest, releaseRequest } from "./store.js";
import { loadTexts, say, sayOr } from "./texts.js";
import { TraceWindow } from "./window.js";
import { Wishes } from "./wishes.js";

const BUSY_AFTER_MS = 150;
const DAY_S = 86_400;
// Numbers of simulated releases: a first answer within a second, then one that is certain enough.
const FIRST_AND_ALL = [2, 50];
const CALENDAR_PURPOSES = ["month", "profile"];

class Page {
  #tasks = 0;

  constructor(about) {
    this.about = about;
    this.store = new Store(DEFAULTS);
    this.panels = new Panels();
    const { store } = this;
    const busy = (on) => this.#busy(on);
    const problem = tell;
    const onError = (error) => this.#failed(error);
    this.views = new Latest((signal) => this.#refreshView(signal), { onBusy: busy, onError });
    // What takes longer than a movement of the slider is asked for after the view.
    this.attacks = new Latest((signal) => this.#refreshAttack(signal), { onBusy: busy, onError });
    this.restores = new Latest((signal) => this.#refreshRestored(signal), { onBusy: busy, onError });
    this.calendars = new Latest((signal) => this.#refreshCalendar(signal), { onBusy: busy, onError });
    // It takes some seconds, and nothing else waits for it.
    this.lefts = new Latest((signal) => this.#refreshLeft(signal), { onBusy: () => {}, onError });
    this.bounds = new Latest((signal) => this.#refreshBounds(signal), {
      onBusy: busy,
      onError: (error) => {
        // The next change of a setting asks for the same curves again.
        this.boundsKey = null;
        onError(error);
      },
    });
    this.controls = new NoiseControls(store, about, { problem });
    this.editor = new HomeEditor(store, { busy, problem });
    this.window = new TraceWindow(store, about.limits.view_readings, () => this.views.ask());
    this.wishes = new Wishes(store, about, { busy, problem });
    this.findings = new FindingsList(store, { busy, problem, goTo: (places) => this.window.goTo(places) });
    this.download = new Download(store, { controls: this.controls, busy, problem });
    this.#wireRest();
    store.subscribe((changed) => this.#changed(changed));
    wireSources(store, about, { busy, problem });
  }

  #wireRest() {
    const { about, store } = this;
    fillSelect(find("attacker"), about.attackers.map(({ name }) => [name, attackerName(name)]), store.values.attacker);
    find("attacker").addEventListener("change", ({ target }) => store.set({ attacker: target.value }));
    find("price").value = store.values.price_per_kwh;
    find("price").addEventListener("input", ({ target }) => this.#setPrice(target));
    find("restored").addEventListener("change", ({ target }) => store.set({ restored: target.checked }));
    find("calendar").addEventListener("toggle", () => this.#askCalendar());
    find("change-file").addEventListener("click", () => this.#close());
    find("about-line").textContent = say("about", { version: about.version });
    this.#showAttacker();
    const redraw = () => this.panels.redraw();
    // What is folded has no width, and is therefore drawn when it is unfolded.
    find("expert").addEventListener("toggle", redraw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    let width = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth !== width) redraw();
      width = innerWidth;
    });
  }

  #changed(changed) {
    if (changed.has("session")) this.#open();
    if (changed.has("attacker")) this.#showAttacker();
    if (!this.store.values.session) return;
    // Who asks for a typical day or for months sees them at once.
    if (changed.has("purpose")) find("calendar").open = CALENDAR_PURPOSES.includes(this.store.values.purpose);
    const context = this.#context();
    if (DRAWN_VALUES.some((name) => changed.has(name))) this.panels.showContext(context);
    if (changed.has("restored")) this.#askRestored();
    if ([...changed].every((name) => DRAWN_VALUES.includes(name))) return;
    this.panels.moveMarker(context);
    this.views.ask();
    this.#askBounds();
  }

  /** Show new readings; the keyboard focus goes to their heading. */
  #open() {
    // The server no longer holds the readings before, and answers about them would mislead.
    for (const task of [this.views, this.attacks, this.restores, this.calendars, this.bounds, this.lefts]) task.cancel();
    this.leftKey = null;
    this.panels.showLeft(null);
    this.boundsKey = null;
    show(find("results"));
    document.body.classList.add("opened");
    this.#showFile();
    this.calendarKey = null;
    this.panels.showCalendar(null);
    find("file-title").focus({ preventScroll: true });
    scrollTo({ top: 0 });
  }

  /** Go back to the choice of readings. A file that is still being read is no longer wanted. */
  #close() {
    this.store.expect("session");
    document.body.classList.remove("opened");
    show(find("results"), false);
    find("file").focus();
    scrollTo({ top: 0 });
  }

  #showFile() {
    const { session, isExample } = this.store.values;
    const { name, readings, interval_s, start, end, sentences } = session;
    const { zone } = this.store.values;
    find("file-title").textContent = isExample ? sayOr(`file.examples.${name}`, name) : name;
    find("file-figures").textContent = say(readings === 1 ? "file.figures_one" : "file.figures", {
      readings: plain(readings, 12),
      interval: duration(interval_s),
      span: stretch(start, end),
      zone,
    });
    fillList(find("file-sentences"), sentences.map(inPageWords));
  }

  #showAttacker() {
    const found = this.about.attackers.find(({ name }) => name === this.store.values.attacker);
    find("attacker-summary").textContent = found?.summary ?? "";
  }

  #setPrice(input) {
    const price = typedNumber(input.value);
    const valid = price >= 0;
    markInvalid(input, !valid);
    tell(valid ? "" : say("cost.price_problem"), "price");
    if (valid) this.store.set({ price_per_kwh: price });
  }

  #askBounds() {
    const { values } = this.store;
    const { home, session, epsilon, protect, span, every } = values;
    // The curves are about one metered reading; the odds of a run or of longer means are in the promise.
    if (!home || epsilon === null || protect === "use" || span !== "reading" || every !== null) {
      this.bounds.cancel();
      this.boundsKey = null;
      this.panels.showBounds(null, this.#context());
      return;
    }
    const { epsilon: _, ...noise } = noiseRequest(values);
    const request = { home, ...noise, trace: session.id };
    const key = JSON.stringify(request);
    if (key === this.boundsKey) return;
    this.boundsKey = key;
    this.boundsRequest = request;
    this.bounds.ask();
  }

  #context() {
    const { values } = this.store;
    const { epsilon, attacker, session, purpose, hide, price_per_kwh: price } = values;
    const plan = isOwnNoise(values) ? null : values.plan;
    const waiting = hide.length > 0 && !values.plan && epsilon === null;
    const { interval_s } = session;
    const truth = session.has_truth && values.home !== null;
    const strongest = attacker === "strongest";
    return { epsilon, unit: this.controls.unit(), attacker: attackerName(attacker), strongest, truth, interval_s, purpose, price, plan, waiting, marks: marksOf(values), chosen: values.finding !== null };
  }

  async #refreshView(signal) {
    const { values } = this.store;
    const { attacker, seed, purpose } = values;
    // A wish of the household decides itself what its data is for.
    const wanted = values.hide.some(isWish) ? {} : { purpose };
    const request = { ...wanted, ...releaseRequest(values), seed, ...this.window.request() };
    const made = this.#context();
    this.#askLeft();
    const view = await api.view(request, signal);
    // Findings and plans that arrived in the meantime belong to the same readings.
    const { marks, chosen, plan, waiting, price } = this.#context();
    const context = { ...made, marks, chosen, plan, waiting, price };
    tell("", "view");
    this.controls.showNoise(view.promise);
    this.download.showParameters(view);
    await this.panels.showView(view, context);
    if (signal.aborted) return;
    this.shown = { request, attacker, context };
    if (context.truth) this.attacks.ask();
    this.#askRestored();
    this.#askCalendar();
  }

  /** What is left does not depend on the stretch that is shown. */
  #askLeft() {
    const { values } = this.store;
    if (values.epsilon === null) {
      this.lefts.cancel();
      this.leftKey = null;
      this.panels.showLeft(null);
      return;
    }
    const request = releaseRequest(values);
    const key = JSON.stringify(request);
    if (key === this.leftKey) return;
    this.leftKey = key;
    this.leftRequest = request;
    this.lefts.ask();
  }

  /** A few releases give a first estimate; more of them refine it. */
  async #refreshLeft(signal) {
    for (const releases of FIRST_AND_ALL) {
      const left = await api.left({ ...this.leftRequest, releases }, signal);
      this.panels.showLeft({ ...left, is_first: releases !== FIRST_AND_ALL.at(-1) });
      if (signal.aborted) return;
    }
  }

  async #refreshAttack(signal) {
    const { request, attacker, context } = this.shown;
    await this.panels.showAttack(await api.attack({ ...request, attacker }, signal), context);
  }

  #askRestored() {
    const { restored, epsilon } = this.store.values;
    if (restored && epsilon !== null && this.shown?.context.epsilon === epsilon) this.restores.ask();
  }

  async #refreshRestored(signal) {
    const { request, context } = this.shown;
    await this.panels.showRestored(await api.restore(request, signal), context);
  }

  /** The calendar covers all readings: it does not depend on the stretch that is shown. */
  #askCalendar() {
    const { values } = this.store;
    const { session, epsilon, zone, seed } = values;
    const long = session && session.interval_s * session.kept >= DAY_S;
    if (!long || epsilon === null || !find("calendar").open) return;
    const { mechanism: _, every: __, ...noise } = releaseRequest(values);
    const request = { ...noise, seed, tz: zone };
    const key = JSON.stringify(request);
    if (key === this.calendarKey) return;
    this.calendarKey = key;
    this.calendarRequest = request;
    this.calendars.ask();
  }

  async #refreshCalendar(signal) {
    try {
      await this.panels.showCalendar(await api.calendar(this.calendarRequest, signal));
    } catch (error) {
      this.calendarKey = null;
      if (signal.aborted || error.status !== 400) throw error;
      await this.panels.showCalendar(null, error.message);
    }
  }

  async #refreshBounds(signal) {
    const bounds = await api.bounds(this.boundsRequest, signal);
    await this.panels.showBounds(bounds, this.#context());
  }

  #failed(error) {
    tell(error.status === 404 ? say("error.forgotten") : error.message, "view");
  }

  /** Count the tasks that run. A progress bar appears only if they take noticeably long. */
  #busy(on) {
    this.#tasks += on ? 1 : -1;
    find("panels").setAttribute("aria-busy", String(this.#tasks > 0));
    if (this.#tasks === 0) {
      clearTimeout(this.busyTimer);
      this.busyTimer = 0;
      show(find("progress"), false);
    } else if (!this.busyTimer) {
      this.busyTimer = setTimeout(() => show(find("progress")), BUSY_AFTER_MS);
    }
  }
}

const attackerName = (name) => sayOr(`attackers.${name}`, name);

/** Show a sentence about a problem of some source. An empty one removes what this source showed. */
function tell(sentence, source) {
  const place = find("error");
  if (!sentence) {
    if (place.dataset.source === source) place.replaceChildren();
    return;
  }
  place.dataset.source = source;
  const close = create("button", { type: "button", className: "button small" }, say("error.dismiss"));
  close.addEventListener("click", () => place.replaceChildren());
  place.replaceChildren(create("p", {}, sentence), close);
}

async function start() {
  await loadTexts();
  loadPlotly().catch((error) => tell(error.message, "page"));
  try {
    new Page(await api.about());
  } catch (error) {
    // Without the token nothing on the page works, and its sentence is all that is shown.
    show(find("main"), error.status !== 401);
    tell(error.message, "page");
  }
}

start();
