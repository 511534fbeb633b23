// A table below every chart, with the same data.

import { create } from "./dom.js";
import { say } from "./texts.js";

const MOST_ROWS = 400;

/** A folded table below a chart; its rows are made when somebody unfolds it. */
export class ChartTable {
  #rows = () => [];
  #columns = [];

  constructor(details) {
    this.details = details;
    this.place = create("div", { className: "table-place" });
    details.append(create("summary", {}, say("table.show")), this.place);
    details.addEventListener("toggle", () => this.#fill());
  }

  /** Set the headings and a function that makes the rows; null hides the table. */
  set(columns, rows) {
    this.details.hidden = rows === null;
    this.#columns = columns;
    this.#rows = rows ?? (() => []);
    this.#fill();
  }

  #fill() {
    if (!this.details.open) return;
    const rows = this.#rows();
    const head = this.#columns.map((name) => create("th", { scope: "col" }, name));
    const table = create(
      "table",
      {},
      create("thead", {}, create("tr", {}, ...head)),
      create("tbody", {}, ...rows.slice(0, MOST_ROWS).map(tableRow)),
    );
    const scroll = create("div", { className: "scroll", tabIndex: 0, role: "region" }, table);
    scroll.setAttribute("aria-label", say("table.show"));
    const left = rows.length > MOST_ROWS;
    const note = left ? [create("p", { className: "hint" }, say("table.rows_left", { shown: MOST_ROWS, all: rows.length }))] : [];
    this.place.replaceChildren(scroll, ...note);
  }
}

function tableRow([first, ...others]) {
  const cells = others.map((value) => create("td", {}, value));
  return create("tr", {}, create("th", { scope: "row" }, first), ...cells);
}
