// ⑩ Protected readings and their receipt.

import { api } from "./api.js";
import { create, fillRadios, find, saveFile } from "./dom.js";
import { plain } from "./format.js";
import { say } from "./texts.js";

const FORMATS = ["csv", "parquet"];

/** Wires the download; `request()` gives the settings, and the dial their words. */
export class Download {
  #format = "csv";
  #spent = [];

  constructor({ request, dial, busy, problem }) {
    Object.assign(this, { request, dial, busy, problem });
    const choices = FORMATS.map((format) => [format, say(`download.formats.${format}`)]);
    fillRadios(find("formats"), "format", choices, this.#format, (format) => {
      this.#format = format;
    });
    find("prepare").addEventListener("click", () => this.#prepare());
  }

  /** Forget what was prepared from other readings. */
  open() {
    this.#spent = [];
    find("prepared").replaceChildren();
  }

  /** Name the promise that the next release would make. */
  showStake(epsilon) {
    const words = { epsilon: plain(epsilon), unit: this.dial.unit() };
    find("download-stake").textContent = `${say("download.stake", words)} ${this.dial.everyWords()}`.trim();
  }

  async #prepare() {
    const request = { ...this.request(), format: this.#format };
    const unit = this.dial.unit();
    const button = find("prepare");
    if (button.getAttribute("aria-disabled") === "true") return;
    // Not `disabled`: the button must keep the focus.
    button.setAttribute("aria-disabled", "true");
    find("prepared").replaceChildren(create("p", {}, say("download.wait")));
    this.busy(true);
    try {
      this.#show(await api.release(request), request, unit);
    } catch (error) {
      find("prepared").replaceChildren();
      this.problem(error.message);
    } finally {
      button.setAttribute("aria-disabled", "false");
      this.busy(false);
    }
  }

  #show(release, { epsilon }, unit) {
    this.#spent.push({ epsilon, unit });
    const bytes = Uint8Array.from(atob(release.data), (letter) => letter.charCodeAt(0));
    const receipt = `${JSON.stringify(release.receipt, null, 2)}\n`;
    const data = this.#button(say("download.data", { name: release.file_name }), () =>
      saveFile(release.file_name, bytes, release.media_type),
    );
    const paper = this.#button(say("download.receipt", { name: release.receipt_name }), () =>
      saveFile(release.receipt_name, receipt, "application/json"),
    );
    data.id = "save-data";
    paper.id = "save-receipt";
    const ready = say("download.ready", { epsilon: plain(epsilon), unit });
    find("prepared").replaceChildren(
      create("p", {}, ready),
      create("div", { className: "row" }, data, paper),
      ...this.#warning(),
    );
  }

  #button(text, save) {
    const button = create("button", { type: "button", className: "button" }, text);
    button.addEventListener("click", save);
    return button;
  }

  #warning() {
    if (this.#spent.length < 2) return [];
    const count = this.#spent.length;
    const [{ unit }] = this.#spent;
    // ε of different units of protection cannot be added.
    const alike = this.#spent.every((entry) => entry.unit === unit);
    const sum = plain(this.#spent.reduce((total, { epsilon }) => total + epsilon, 0));
    const words = say(alike ? "download.again" : "download.again_mixed", { count, sum, unit });
    return [create("p", { className: "problem" }, words)];
  }
}
