// Shows the answers of the server in the panels of the page.

import { drawBounds, drawHourly, drawTrace, drawVisibility, rowsOf } from "./charts.js";
import { create, fillList, find, show } from "./dom.js";
import { kilowattHours, money, moment, outOf100, plain, stretch, watts } from "./format.js";
import { drawLegend, drawStrips, stripRows, stripSummary } from "./strips.js";
import { ChartTable } from "./tables.js";
import { say } from "./texts.js";
import { extent } from "./window.js";

/**
 * The panels. They keep what they show, to draw it again in other colours or widths. A context
 * holds the settings that an answer was made with, the unit of protection and the attacker's name.
 */
export class Panels {
  #view = null;
  #viewContext = null;
  #bounds = null;
  #boundsContext = null;

  constructor() {
    this.tables = {};
    for (const details of document.querySelectorAll("[data-table]")) {
      this.tables[details.dataset.table] = new ChartTable(details);
    }
  }

  /** Show the answer to /api/view. */
  async showView(view, context) {
    this.#view = view;
    this.#viewContext = context;
    this.#showSentences();
    this.#showStrips();
    this.#showCost();
    await Promise.all([this.#showTrace(), this.#showVisibility()]);
  }

  /** Show the answer to /api/bounds. */
  async showBounds(bounds, context) {
    this.#bounds = bounds;
    await this.moveMarker(context);
  }

  /** Draw everything again, after a change of colours or width. */
  async redraw() {
    if (this.#view) await this.showView(this.#view, this.#viewContext);
    if (this.#bounds) await this.moveMarker(this.#boundsContext);
  }

  /** The start and end of what is shown. */
  #extent() {
    return extent(this.#view, this.#viewContext.interval_s);
  }

  #showSentences() {
    const { epsilon, unit, attacker } = this.#viewContext;
    const key = this.#view.visibility ? "words.attacker" : "words.guesses";
    find("words-attacker").textContent = say(key, { attacker, unit, epsilon: plain(epsilon) });
    const list = find("sentences");
    fillList(list, this.#view.sentences);
    const count = this.#view.visibility?.length ?? 0;
    [...list.children].forEach((entry, i) => entry.classList.toggle("odds", i > 0 && i <= count));
    const coarser = this.#view.interval_s > this.#viewContext.interval_s;
    show(find("released-reveals"), coarser);
    find("released-reveals").textContent = coarser ? this.#view.reveals : "";
  }

  #showTrace() {
    const view = this.#view;
    const [low, high] = range(view.metered);
    const [released_low, released_high] = range(view.released);
    const words = { low, high, released_low, released_high };
    for (const key of Object.keys(words)) words[key] = watts(words[key]);
    find("trace-summary").textContent = say("trace.summary", words);
    const rows = () => {
      const released = rowAt(view.released, 1000 * view.interval_s);
      return view.metered.map(([time, ...metered]) => [moment(time, { seconds: true }), span(metered), span(released(time))]);
    };
    this.tables.trace.set(columns("trace", ["time", "metered", "released"]), rows);
    return drawTrace(find("trace-chart"), view, { metered_s: this.#viewContext.interval_s, range: this.#extent() });
  }

  #showStrips() {
    const { strips } = this.#view;
    find("attacker-trained").textContent = this.#view.trained_on ? say("strips.trained", { data: this.#view.trained_on }) : "";
    const hasTruth = strips?.some((strip) => strip.truth !== null) ?? false;
    const empty = find("strips-empty");
    show(find("strips"), strips !== null);
    show(find("strips-legend"), strips !== null);
    show(empty, !hasTruth);
    empty.textContent = say(strips === null ? "strips.no_home" : "strips.no_truth");
    if (strips === null) {
      this.tables.strips.set([], null);
      return;
    }
    drawLegend(find("strips-legend"), hasTruth);
    drawStrips(find("strips"), strips, this.#extent());
    find("strips-summary").textContent = stripSummary(strips, hasTruth);
    const names = hasTruth ? ["appliance", "on", "seen", "missed", "alarm"] : ["appliance", "believed"];
    this.tables.strips.set(columns("strips", names), () => stripRows(strips, hasTruth));
  }

  async #showVisibility() {
    const rows = this.#view.visibility;
    const chart = find("visibility-chart");
    show(chart, rows !== null);
    show(find("visibility-empty"), rows === null);
    find("visibility-empty").textContent = say("visibility.no_truth");
    const names = ["appliance", "right", "guess", "visibility", "interval"];
    this.tables.visibility.set(columns("visibility", names), rows && (() => rowsOf.visibility(rows)));
    if (rows !== null) await drawVisibility(chart, rows);
  }

  #showCost() {
    const { kwh, bill, peak, hourly } = this.#view.cost;
    const amount = (value) => money(value, bill.currency);
    find("cost-tiles").replaceChildren(
      tile("cost.energy", kilowattHours(kwh.released), kilowattHours(kwh.true), kilowattHours(kwh.error_sd)),
      tile("cost.bill", amount(bill.released), amount(bill.true), amount(bill.error_sd)),
      tile("cost.peak", watts(peak.released), watts(peak.true)),
    );
    find("cost-span").textContent = say("cost.span", { span: stretch(...this.#extent()) });
    const rows = () => hourly.map(([time, metered, released]) => [moment(time), watts(metered), watts(released)]);
    this.tables.cost.set(columns("cost", ["time", "metered", "released"]), rows);
    const chart = find("cost-chart");
    chart.setAttribute("aria-label", say("cost.hourly"));
    return drawHourly(chart, hourly);
  }

  /** Move the marker to the ε of the slider; the curves themselves do not depend on it. */
  async moveMarker(context) {
    this.#boundsContext = context;
    const curves = this.#bounds;
    if (!curves) return;
    const { epsilon, unit } = context;
    const nearest = closest(curves, epsilon);
    find("bounds-summary").textContent = say("bounds.summary", {
      epsilon: plain(epsilon),
      unit,
      universal: outOf100(curves.universal[nearest]),
      floor: outOf100(curves.floor),
    });
    find("bounds-meaning").textContent = curves.sentences[0];
    find("bounds-note").textContent = curves.lower === null ? say("bounds.only_laplace") : "";
    const names = ["epsilon", "log", "exact", "lower", "upper", "universal"];
    this.tables.bounds.set(columns("bounds", names), () => rowsOf.bounds(curves));
    await drawBounds(find("bounds-chart"), curves, epsilon);
  }
}

const columns = (panel, names) => names.map((name) => say(`${panel}.columns.${name}`));

const span = ([low = null, high]) => (low === null ? "–" : low === high ? watts(low) : `${watts(low)} … ${watts(high)}`);

/** Returns a function that finds the row for a time; `length` is the length of a reading [ms]. */
function rowAt(points, length) {
  const stretches = points.length > 1 ? (points.at(-1)[0] - points[0][0]) / (points.length - 1) : 0;
  const end = points.at(-1)[0] + Math.max(length, stretches);
  let place = -1;
  return (time) => {
    while (place + 1 < points.length && points[place + 1][0] <= time) place += 1;
    return place < 0 || time >= end ? [] : points[place].slice(1);
  };
}

function range(points) {
  const measured = points.filter(([, low]) => low !== null);
  const lows = measured.map(([, low]) => low);
  const highs = measured.map(([, , high]) => high);
  return [Math.min(...lows), Math.max(...highs)];
}

function closest(curves, wanted) {
  const known = (i) => curves.universal[i] !== null;
  const distance = curves.epsilon.map((value, i) => (known(i) ? Math.abs(Math.log(value / wanted)) : Infinity));
  return distance.indexOf(Math.min(...distance));
}

function tile(key, released, metered, error) {
  const lines = [create("dd", {}, say("cost.instead", { value: metered }))];
  if (error) lines.push(create("dd", { className: "soft" }, say("cost.error", { value: error })));
  const big = create("dd", { className: "big" }, released);
  return create("div", { className: "tile" }, create("dt", {}, say(key)), big, ...lines);
}
