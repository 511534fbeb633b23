// Ties the page together: readings, home and settings in; panels out.

import { Advisor } from "./advice.js";
import { Latest, api } from "./api.js";
import { Dial } from "./dial.js";
import { create, fillList, fillSelect, find, markInvalid, show } from "./dom.js";
import { Download } from "./download.js";
import { loadPlotly } from "./drawing.js";
import { duration, plain, stretch, typedNumber } from "./format.js";
import { HomeEditor } from "./home_editor.js";
import { Panels } from "./panels.js";
import { inPageWords, wireSources } from "./sources.js";
import { loadTexts, say } from "./texts.js";
import { TraceWindow } from "./window.js";

const BUSY_AFTER_MS = 150;
const DEFAULTS = { epsilon: 1, mechanism: "laplace", protect: "appliance", span: "reading", every: null, appliance: null, attacker: "bayes", seed: 1, price_per_kwh: 0.3 };

class Page {
  constructor(about) {
    this.about = about;
    this.session = null;
    this.home = null;
    this.settings = { ...DEFAULTS };
    this.panels = new Panels();
    const problem = (sentence) => this.tell(sentence);
    const busy = (on) => this.busy(on);
    const onError = (error) => this.#failed(error);
    this.views = new Latest((signal) => this.#refreshView(signal), { onBusy: busy, onError });
    this.bounds = new Latest((signal) => this.#refreshBounds(signal), {
      onBusy: () => {},
      onError: (error) => {
        // The same curves may be asked for again.
        this.boundsKey = null;
        onError(error);
      },
    });
    this.window = new TraceWindow(about.limits.view_readings, () => this.views.ask());
    this.dial = new Dial(this.settings, about, { changed: () => this.#changed(), problem });
    this.editor = new HomeEditor({ changed: (home) => this.#setHome(home), problem });
    this.advisor = new Advisor({ request: () => this.#goal(), apply: (option) => this.#apply(option), busy, problem });
    this.download = new Download({ request: () => this.#request(), dial: this.dial, busy, problem });
    wireSources(about, { open: (session, isExample) => this.open(session, isExample), busy, problem });
    this.#wireRest();
  }

  #wireRest() {
    const { about, settings } = this;
    fillSelect(find("attacker"), about.attackers.map(({ name, label }) => [name, label ?? name]), settings.attacker);
    find("attacker").addEventListener("change", (event) => {
      settings.attacker = event.target.value;
      this.#showAttacker();
      this.views.ask();
    });
    find("price").value = settings.price_per_kwh;
    find("price").addEventListener("change", (event) => this.#setPrice(event.target));
    find("change-file").addEventListener("click", () => this.close());
    find("about-line").textContent = say("about", { version: about.version });
    this.#showAttacker();
    const redraw = () => this.panels.redraw();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    let width = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth !== width) redraw();
      width = innerWidth;
    });
  }

  /** Show new readings; the focus goes to their heading. */
  async open(session, isExample) {
    const home = session.home ?? (await this.#typicalHome());
    const old = this.session;
    this.session = session;
    if (old && old.id !== session.id) api.forget(old.id).catch(() => {});
    show(find("results"));
    document.body.classList.add("opened");
    this.#showFile(isExample);
    this.dial.setReadings(session);
    this.window.open(session, this.settings.every);
    this.download.open();
    const source = session.home ? (isExample ? "example" : "file") : "typical";
    this.editor.set(home, source, { trace: session.id, canLearn: session.has_truth && !isExample });
    this.#setHome(home);
    find("file-title").focus({ preventScroll: true });
    scrollTo({ top: 0 });
  }

  /** The home of the first example: something to start from where a file names no appliances. */
  async #typicalHome() {
    const { id, home } = await api.example(this.about.examples[0].name);
    api.forget(id).catch(() => {});
    return home;
  }

  /** Back to choosing readings. */
  close() {
    document.body.classList.remove("opened");
    show(find("results"), false);
    find("file").focus();
    scrollTo({ top: 0 });
  }

  #showFile(isExample) {
    const { name, readings, interval_s, start, end, sentences } = this.session;
    find("file-title").textContent = isExample ? say("file.example", { name }) : name;
    find("file-figures").textContent = say("file.figures", {
      readings: plain(readings, 12),
      interval: duration(interval_s),
      span: stretch(start, end),
    });
    find("file-reveals").textContent = sentences[0];
    fillList(find("file-sentences"), sentences.slice(1).map(inPageWords));
  }

  #showAttacker() {
    const found = this.about.attackers.find(({ name }) => name === this.settings.attacker);
    find("attacker-summary").textContent = found?.summary ?? "";
  }

  #setPrice(input) {
    const price = typedNumber(input.value);
    const fine = price >= 0;
    markInvalid(input, !fine);
    if (!fine) {
      this.tell(say("cost.price_problem"));
      return;
    }
    this.settings.price_per_kwh = price;
    this.views.ask();
  }

  #setHome(home) {
    this.home = home;
    this.dial.setAppliances(home.appliances.map(({ name }) => name));
    this.advisor.setHome(home);
    this.#changed();
  }

  #changed() {
    this.download.showStake(this.settings.epsilon);
    if (!this.session) return;
    this.window.fit(this.settings.every);
    this.panels.moveMarker(this.#context());
    this.views.ask();
    this.#askBounds();
  }

  #askBounds() {
    const { epsilon: _, ...noise } = this.dial.request();
    const request = { home: this.home, ...noise, interval_s: this.session.interval_s };
    const key = JSON.stringify(request);
    if (key === this.boundsKey) return;
    this.boundsKey = key;
    this.boundsRequest = request;
    this.bounds.ask();
  }

  #goal() {
    return { home: this.home, trace: this.session.id, price_per_kwh: this.settings.price_per_kwh };
  }

  #apply(option) {
    this.dial.apply(option);
    document.querySelector(".board").scrollIntoView();
  }

  #request() {
    return { trace: this.session.id, home: this.home, ...this.dial.request() };
  }

  #context() {
    const { epsilon, attacker } = this.settings;
    const label = this.about.attackers.find(({ name }) => name === attacker)?.label ?? attacker;
    return { epsilon, unit: this.dial.unit(), attacker: label, interval_s: this.session.interval_s };
  }

  async #refreshView(signal) {
    const { attacker, seed, price_per_kwh } = this.settings;
    const context = this.#context();
    const request = { ...this.#request(), attacker, seed, price_per_kwh, ...this.window.request() };
    const view = await api.view(request, signal);
    this.#recovered();
    this.dial.showNoise(view);
    await this.panels.showView(view, context);
  }

  async #refreshBounds(signal) {
    const bounds = await api.bounds(this.boundsRequest, signal);
    await this.panels.showBounds(bounds, this.#context());
  }

  #failed(error) {
    this.lastFailure = error.status === 404 ? say("error.forgotten") : error.message;
    this.tell(this.lastFailure);
  }

  /** Take away the sentence about an earlier view, but no other. */
  #recovered() {
    if (find("error").firstElementChild?.textContent === this.lastFailure) this.tell("");
  }

  /** Show an error sentence, or take it away. */
  tell(sentence) {
    tell(sentence);
  }

  /** Show that work is under way, but only if it takes noticeably long. */
  busy(on) {
    clearTimeout(this.busyTimer);
    find("panels").setAttribute("aria-busy", String(on));
    if (on) this.busyTimer = setTimeout(() => show(find("progress")), BUSY_AFTER_MS);
    else show(find("progress"), false);
  }
}

function tell(sentence) {
  const place = find("error");
  if (!sentence) {
    place.replaceChildren();
    return;
  }
  const close = create("button", { type: "button", className: "button small" }, say("error.dismiss"));
  close.addEventListener("click", () => place.replaceChildren());
  place.replaceChildren(create("p", {}, sentence), close);
}

async function start() {
  await loadTexts();
  loadPlotly().catch((error) => tell(error.message));
  try {
    new Page(await api.about());
  } catch (error) {
    tell(error.message);
  }
}

start();
