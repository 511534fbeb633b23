// The download: protected readings and their receipt.

import { api } from "./api.js";
import { create, fillList, fillRadios, find, saveFile, show } from "./dom.js";
import { duration, plain, watts } from "./format.js";
import { CALIBRATION_VALUES, RELEASE_VALUES, formatOf, isOfSums, releaseRequest } from "./store.js";
import { say } from "./texts.js";

const FORMATS = ["zip", "csv", "parquet"];
const SOURCES = ["typed", "catalogue", "learnt from other days", "learnt from these readings"];

/**
 * Wires the download. A release carries exactly the settings that the page shows at the click. As
 * soon as one of them changes, files that were prepared with the old ones are taken off the page.
 */
export class Download {
  #spent = [];
  #needsConsent = false;
  #waiting = false;

  constructor(store, { controls, busy, problem }) {
    Object.assign(this, { store, controls, busy, problem });
    const choices = FORMATS.map((format) => [format, say(`download.formats.${format}`)]);
    fillRadios(find("formats"), "format", choices, store.values.format, (format) => store.set({ format }));
    find("prepare").addEventListener("click", () => this.#prepare());
    find("consent").addEventListener("change", ({ target }) => store.set({ consent: target.checked }));
    store.subscribe((changed) => this.#changed(changed));
    this.#showStake();
  }

  #changed(changed) {
    if (RELEASE_VALUES.some((name) => changed.has(name))) this.problem("", "download");
    if (changed.has("session")) {
      this.#spent = [];
      this.#show();
    } else if (RELEASE_VALUES.some((name) => changed.has(name))) {
      this.#outdate();
    }
    this.#showStake();
    find("consent").checked = this.store.values.consent;
    // Consent is given for certain numbers; with others it must be given again.
    if (CALIBRATION_VALUES.some((name) => changed.has(name))) this.store.set({ consent: false });
  }

  /** Show the numbers that calibrate the noise, and ask for consent if they need it. */
  showParameters({ parameters, needs_consent }) {
    this.#needsConsent = needs_consent;
    const lines = SOURCES.map((source) => parameters.filter((one) => one.source === source))
      .filter((group) => group.length > 0)
      .map((group) => say(`download.sources.${group[0].source}`, { list: group.map(numberInWords).join(", ") }));
    fillList(find("parameters"), lines);
    show(find("consent-block"), needs_consent);
  }

  #outdate() {
    const place = find("prepared");
    if (place.childElementCount === 0) return;
    this.#show(create("p", {}, say("download.outdated")));
  }

  /** Name the promise that the next release would make. */
  #showStake() {
    const { epsilon } = this.store.values;
    show(find("formats"), !isOfSums(this.store.values));
    find("prepare").setAttribute("aria-disabled", String(epsilon === null || this.#waiting));
    if (epsilon === null) {
      find("download-stake").textContent = say("download.nothing");
      return;
    }
    const words = { unit: this.controls.unit() };
    find("download-stake").textContent = `${say("download.stake", words)} ${this.controls.everyWords()}`.trim();
  }

  async #prepare() {
    const button = find("prepare");
    if (button.getAttribute("aria-disabled") === "true" || !this.#fieldsAreValid() || !this.#isAccepted()) return;
    this.#waiting = true;
    this.problem("", "download");
    const { values } = this.store;
    const unit = this.controls.unit(values);
    // The attribute `disabled` would take the keyboard focus away from the button.
    button.setAttribute("aria-disabled", "true");
    this.#show(create("p", {}, say("download.wait")));
    this.busy(true);
    try {
      const release = await api.release({ ...releaseRequest(values), format: formatOf(values), accept_learnt: values.consent });
      if (this.#isStillShown(values)) this.#offer(release, values.epsilon, unit);
    } catch (error) {
      if (this.#isStillShown(values)) {
        this.#show();
        this.problem(error.message, "download");
      }
    } finally {
      this.#waiting = false;
      this.#showStake();
      this.busy(false);
    }
  }

  /** A release must not carry other values than those in the fields, even if these are wrong. */
  #fieldsAreValid() {
    const wrong = document.querySelector('#results [aria-invalid="true"]');
    if (!wrong) return true;
    this.problem(say("download.invalid"), "download");
    find("expert").open = true;
    wrong.focus();
    return false;
  }

  #isAccepted() {
    if (!this.#needsConsent || this.store.values.consent) return true;
    this.problem(say("download.consent_needed"), "download");
    find("consent").focus();
    return false;
  }

  #isStillShown(values) {
    return RELEASE_VALUES.every((name) => values[name] === this.store.values[name]);
  }

  #offer(release, epsilon, unit) {
    this.#spent.push({ epsilon, unit });
    const bytes = Uint8Array.from(atob(release.data), (letter) => letter.charCodeAt(0));
    const saveJson = (name, value) => () => saveFile(name, `${JSON.stringify(value, null, 2)}\n`, "application/json");
    const { file_name, receipt_name, private_name } = release;
    this.#show(
      create("p", {}, say("download.ready", { epsilon: plain(epsilon), unit })),
      create(
        "div",
        { className: "row" },
        this.#button("save-data", file_name, () => saveFile(file_name, bytes, release.media_type)),
        this.#button("save-receipt", receipt_name, saveJson(receipt_name, release.receipt)),
        this.#button("save-private", private_name, saveJson(private_name, release.private)),
      ),
      create("p", { className: "hint" }, say("download.parts")),
      ...this.#warning(),
    );
  }

  #show(...children) {
    find("prepared").replaceChildren(...children);
  }

  #button(id, name, save) {
    const button = create("button", { type: "button", className: "button", id }, say("download.save", { name }));
    button.addEventListener("click", save);
    return button;
  }

  #warning() {
    if (this.#spent.length < 2) return [];
    const count = this.#spent.length;
    const [{ unit }] = this.#spent;
    // Values of ε can be added only if they have the same unit of protection.
    const alike = this.#spent.every((entry) => entry.unit === unit);
    const sum = plain(this.#spent.reduce((total, { epsilon }) => total + epsilon, 0));
    const words = say(alike ? "download.again" : "download.again_mixed", { count, sum, unit });
    return [create("p", { className: "problem" }, words)];
  }
}

/** A number that calibrates the noise, such as “power of the kettle 2 kW”. */
function numberInWords({ name, used, value, unit }) {
  const number = used ?? value;
  const words = { W: watts, s: duration }[unit]?.(number) ?? `${plain(number)} ${unit}`;
  return `${name} ${words}`;
}
