// The download: protected readings and their receipt.

import { api } from "./api.js";
import { create, fillRadios, find, saveFile } from "./dom.js";
import { plain } from "./format.js";
import { RELEASE_VALUES, releaseRequest } from "./store.js";
import { say } from "./texts.js";

const FORMATS = ["csv", "parquet"];

/**
 * Wires the download. A release carries exactly the settings that the page shows at the click. As
 * soon as one of them changes, files that were prepared with the old ones are taken off the page.
 */
export class Download {
  #spent = [];

  constructor(store, { controls, busy, problem }) {
    Object.assign(this, { store, controls, busy, problem });
    const choices = FORMATS.map((format) => [format, say(`download.formats.${format}`)]);
    fillRadios(find("formats"), "format", choices, store.values.format, (format) => store.set({ format }));
    find("prepare").addEventListener("click", () => this.#prepare());
    store.subscribe((changed) => this.#changed(changed));
    this.#showStake();
  }

  #changed(changed) {
    if (changed.has("session")) {
      this.#spent = [];
      this.#show();
    } else if ([...RELEASE_VALUES, "format"].some((name) => changed.has(name))) {
      this.#outdate();
    }
    this.#showStake();
  }

  #outdate() {
    const place = find("prepared");
    if (place.childElementCount === 0) return;
    this.#show(create("p", {}, say("download.outdated")));
  }

  /** Name the promise that the next release would make. */
  #showStake() {
    const words = { epsilon: plain(this.store.values.epsilon), unit: this.controls.unit() };
    find("download-stake").textContent = `${say("download.stake", words)} ${this.controls.everyWords()}`.trim();
  }

  async #prepare() {
    const button = find("prepare");
    if (button.getAttribute("aria-disabled") === "true" || !this.#fieldsAreValid()) return;
    const { values } = this.store;
    const unit = this.controls.unit(values);
    // The attribute `disabled` would take the keyboard focus away from the button.
    button.setAttribute("aria-disabled", "true");
    this.#show(create("p", {}, say("download.wait")));
    this.busy(true);
    try {
      const release = await api.release({ ...releaseRequest(values), format: values.format });
      if (this.#isStillShown(values)) this.#offer(release, values.epsilon, unit);
    } catch (error) {
      if (this.#isStillShown(values)) this.#show();
      this.problem(error.message);
    } finally {
      button.setAttribute("aria-disabled", "false");
      this.busy(false);
    }
  }

  /** A release must not carry other values than those in the fields, even if these are wrong. */
  #fieldsAreValid() {
    const wrong = document.querySelector('#results [aria-invalid="true"]');
    if (!wrong) return true;
    this.problem(say("download.invalid"));
    wrong.focus();
    return false;
  }

  #isStillShown(values) {
    return [...RELEASE_VALUES, "format"].every((name) => values[name] === this.store.values[name]);
  }

  #offer(release, epsilon, unit) {
    this.#spent.push({ epsilon, unit });
    const bytes = Uint8Array.from(atob(release.data), (letter) => letter.charCodeAt(0));
    const receipt = `${JSON.stringify(release.receipt, null, 2)}\n`;
    const saveData = this.#button("save-data", "download.data", release.file_name, () =>
      saveFile(release.file_name, bytes, release.media_type),
    );
    const saveReceipt = this.#button("save-receipt", "download.receipt", release.receipt_name, () =>
      saveFile(release.receipt_name, receipt, "application/json"),
    );
    this.#show(
      create("p", {}, say("download.ready", { epsilon: plain(epsilon), unit })),
      create("div", { className: "row" }, saveData, saveReceipt),
      ...this.#warning(),
    );
  }

  #show(...children) {
    find("prepared").replaceChildren(...children);
  }

  #button(id, key, name, save) {
    const button = create("button", { type: "button", className: "button", id }, say(key, { name }));
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
