// Shows the answers of the server in the panels of the page.

import { drawBounds, drawEstimates, drawReadings, drawTrace, drawVisibility, rowsOf } from "./charts.js";
import { create, fillList, find, show } from "./dom.js";
import { fixed, kilowattHours, moment, outOf100, plain, stretch, watts } from "./format.js";
import { drawLegend, drawStrips, stripRows, stripSummary } from "./strips.js";
import { ChartTable } from "./tables.js";
import { inPageWords } from "./sources.js";
import { say, told } from "./texts.js";
import { extent } from "./window.js";

/**
 * The panels. They keep what they show, to draw it again in other colours or widths. A context
 * holds the settings that an answer was made with, the unit of protection, the attacker's name, the
 * marks of the findings and the plan.
 */
// Number of statements of which a phone shows at once what is left; the style sheet has the same number.
const SHOWN_LEFT = 3;

// A use that lasts as long is a day at home [s].
const LONGEST_DAY_S = 25 * 3600;

/** Odds out of 100; what is nearly certain is not rounded to 100. */
const shownOdds = (odds) => (odds > 0.9995 ? "> 99.9" : outOf100(odds));

export class Panels {
  #view = null;
  #viewContext = null;
  #attack = null;
  #restored = null;
  #calendar = null;
  #bounds = null;
  #boundsContext = null;

  constructor() {
    find("left-all").addEventListener("click", () => {
      find("left").classList.add("all");
      show(find("left-all"), false);
    });
    this.tables = {};
    for (const details of document.querySelectorAll("[data-table]")) {
      this.tables[details.dataset.table] = new ChartTable(details);
    }
  }

  /** Show the answer to /api/view. */
  async showView(view, context) {
    this.#view = view;
    this.#viewContext = context;
    // An attack and restored values belong to one release.
    this.#attack = null;
    this.#restored = null;
    await this.#showAll();
  }

  /** Show the answer to /api/attack, which belongs to the view with the same context. */
  async showAttack(attack, context) {
    if (context !== this.#viewContext) return;
    this.#attack = attack;
    this.#showSentences();
    this.#showStrips();
    await this.#showExpert();
  }

  /** Show the answer to /api/restore, which belongs to the view with the same context. */
  async showRestored(restored, context) {
    if (context !== this.#viewContext) return;
    this.#restored = restored;
    await this.#showRelease();
  }

  /** Show the answer to /api/calendar, or one sentence that says why there is none. */
  async showCalendar(calendar, problem = "") {
    this.#calendar = calendar;
    find("calendar-note").textContent = calendar ? say("calendar.note", { days: calendar.days }) : problem;
    show(find("profile-figure"), calendar?.profile.length > 0);
    show(find("months-figure"), calendar !== null);
    await this.#drawCalendar();
  }

  async #drawCalendar() {
    if (!this.#calendar || !find("calendar").open) return;
    const { profile, months } = this.#calendar;
    const rows = (list, amount) => () => list.map((one) => [one.label, amount(one.metered), amount(one.value), `± ${amount(one.error)}`]);
    const names = ["label", "metered", "released", "error"];
    this.tables.profile.set(columns("calendar", names), rows(profile, watts));
    this.tables.months.set(columns("calendar", names), rows(months, kilowattHours));
    await drawEstimates(find("profile-chart"), profile, say("calendar.watts"));
    await drawEstimates(find("months-chart"), months, say("calendar.kwh"));
  }

  async #showAll() {
    this.#showSentences();
    this.#showStrips();
    this.#showVerdict();
    await Promise.all([this.#showReadings(), this.#showRelease(), this.#showExpert(), this.#drawCalendar()]);
  }

  /** Show the answer to /api/bounds, or none. */
  async showBounds(bounds, context) {
    this.#bounds = bounds;
    await this.moveMarker(context);
  }

  /** Show other marks, another plan or another zone with the view that is already there. */
  async showContext(context) {
    if (!this.#view) return;
    const { marks, chosen, plan, waiting, price } = context;
    Object.assign(this.#viewContext, { marks, chosen, plan, waiting, price });
    this.#showVerdict();
    this.#showCost();
    await Promise.all([this.#showReadings(), this.#showRelease()]);
  }

  /** Draw everything again, after a change of colours or width. */
  async redraw() {
    if (this.#view) await this.#showAll();
    if (this.#bounds) await this.moveMarker(this.#boundsContext);
  }

  /** The start and end of what is shown. */
  #extent() {
    return extent(this.#view, this.#viewContext.interval_s);
  }

  #showSentences() {
    const { interval_s: metered_s } = this.#viewContext;
    const { interval_s, promise, verdict } = this.#view;
    find("words-attacker").textContent = this.#attackerWords();
    const odds = this.#attack?.sentences ?? [];
    // The promise comes first, then what the attacker detects, then the cost.
    const promised = promise?.sentences ?? [];
    const first = promised.length;
    const sentences = [...promised, ...odds, ...(verdict?.sentences.slice(0, 1) ?? [])];
    fillList(find("sentences"), sentences);
    show(find("words-more"), sentences.length > 0);
    const count = this.#attack?.visibility?.length ?? 0;
    [...find("sentences").children].forEach((entry, i) => entry.classList.toggle("odds", i >= first && i < first + count));
    const coarser = interval_s > metered_s;
    show(find("released-reveals"), coarser);
    find("released-reveals").textContent = coarser ? this.#view.reveals : "";
  }

  /** Which attacker it is, as far as that is known yet. */
  #attackerWords() {
    const { epsilon, attacker, strongest, truth } = this.#viewContext;
    if (!truth) return "";
    if (!this.#attack) return say("words.wait");
    if (!this.#attack.visibility) return "";
    const kind = strongest ? "strongest" : "attacker";
    return say(`words.${kind}${epsilon === null ? "_no_noise" : ""}`, { attacker: strongest ? this.#attack.name : attacker });
  }

  /** The readings without noise, with what shows in them. */
  #showReadings() {
    const view = this.#view;
    const [low, high] = range(view.metered);
    find("trace-summary").textContent = say("trace.summary", { low: watts(low), high: watts(high) });
    const rows = () => {
      const released = rowAt(view.released ?? [], 1000 * view.interval_s);
      return view.metered.map(([time, ...metered]) => [moment(time, { seconds: true }), span(metered), span(released(time))]);
    };
    this.tables.trace.set(columns("trace", ["time", "metered", "released"]), rows);
    const { interval_s, marks, chosen } = this.#viewContext;
    return drawReadings(find("trace-chart"), view, { metered_s: interval_s, range: this.#extent(), marks, chosen });
  }

  /** The released readings beside the metered ones. */
  async #showRelease() {
    const view = this.#view;
    const { interval_s, truth } = this.#viewContext;
    for (const id of ["release-chart", "calendar"]) show(find(id), view.released !== null);
    // Sums of days have no hours that could be restored.
    show(find("restored").closest("p"), view.promise?.receipt.tables.some(({ table }) => table === "cells") ?? false);
    const restored = find("restored").checked ? this.#restored : null;
    const caption = say(view.released ? "release.caption" : "release.none");
    const more = restored ? say("release.restored", { error: watts(restored.error_w) }) : "";
    find("release-caption").textContent = `${caption} ${more}`.trim();
    if (view.released === null) {
      find("release-summary").textContent = "";
      return;
    }
    const [low, high] = range(view.released);
    find("release-summary").textContent = say("release.summary", { low: watts(low), high: watts(high) });
    await drawTrace(find("release-chart"), view, { metered_s: interval_s, range: this.#extent(), restored: restored?.rows, strips: truth });
  }

  /** What is folded is drawn only while it is unfolded. */
  async #showExpert() {
    this.#showCost();
    if (find("expert").open) await this.#showVisibility();
  }

  #showStrips() {
    const { truth, strongest } = this.#viewContext;
    find("strips-title").textContent = say(strongest ? "strips.title" : "strips.title_other");
    // While the attacker computes, the strips of the release before stay and are dimmed.
    const waiting = truth && this.#attack === null;
    find("strips").classList.toggle("waiting", waiting);
    if (waiting) {
      for (const id of ["strips", "strips-legend", "strips-title"]) show(find(id));
      show(find("strips-empty"), false);
      return;
    }
    const strips = this.#attack?.strips ?? null;
    const data = this.#attack?.trained_on;
    const trained = data ? say("strips.trained", { data }) : "";
    find("attacker-trained").textContent = [this.#attack?.chosen, trained].filter(Boolean).join(" ");
    for (const id of ["strips", "strips-legend", "strips-title"]) show(find(id), strips !== null);
    show(find("strips-empty"), strips === null);
    find("strips-empty").textContent = strips === null ? say("strips.no_truth") : "";
    if (strips === null) {
      find("strips").replaceChildren();
      find("strips-summary").textContent = "";
      this.tables.strips.set([], null);
      return;
    }
    drawLegend(find("strips-legend"));
    drawStrips(find("strips"), strips, this.#extent());
    find("strips-summary").textContent = stripSummary(strips);
    this.tables.strips.set(columns("strips", ["appliance", "on", "seen", "missed", "alarm"]), () => stripRows(strips));
  }

  /** One figure: the usual error, beside the household's own use. */
  #showVerdict() {
    const { verdict, promise } = this.#view;
    const { plan, waiting } = this.#viewContext;
    const purpose = verdict?.purpose;
    const place = find("verdict");
    // After the sentence of ε the server says what is hidden. The next sentence is about odds, which the line of the
    // table has too, or about sums that stay the same, or about days that stay visible.
    const { rearranged, span, changes } = promise?.receipt.unit ?? {};
    const more = rearranged?.length > 0 || (span === "run" && changes.some((one) => one.seconds >= LONGEST_DAY_S));
    const last = more ? 3 : 2;
    const promised = plan && promise ? [...promise.sentences.slice(1, last), ...verdict.sentences.slice(2)] : [];
    this.#showOdds(plan && promise ? promise.receipt.guesses : []);
    fillList(find("plan-sentences"), promised.map(told).map(({ text, lang }) => ({ text: inPageWords(text), lang })));
    if (!verdict) {
      place.replaceChildren(create("p", { className: "empty" }, say(waiting ? "cost.wait" : "cost.nothing")));
      return;
    }
    const amount = ["hour", "profile"].includes(purpose) ? watts : kilowattHours;
    const stake = told(verdict.sentences[1]);
    const most = Math.max(verdict.error, Math.abs(verdict.own)) || 1;
    const size = verdict.error === 0 ? say("cost.exact") : `± ${amount(verdict.error)}`;
    place.replaceChildren(
      create("p", { className: `figure ${verdict.level}` }, create("strong", {}, size), ` ${say(`cost.per.${purpose}`)}`),
      bar("error", verdict.error / most, say("cost.bar_error", { value: amount(verdict.error) })),
      bar("own", Math.abs(verdict.own) / most, say("cost.bar_own", { value: amount(verdict.own) })),
      create("p", { className: `stake ${verdict.level}`, lang: stake.lang }, stake.text),
    );
  }

  /** One small table: how often the best attacker is right, from one use to all days. */
  #showOdds(guesses) {
    const row = ({ text, lang }, odds) => create("tr", {}, create("th", { scope: "row", lang }, text), create("td", {}, shownOdds(odds)));
    const rows = guesses.map(({ about, odds }) => row(told(about), odds));
    find("odds-rows").replaceChildren(...rows);
    show(find("odds-table"), rows.length > 1);
    if (rows.length === 0) return;
    // A day of usual use is never left out, also while the table is folded.
    const day = guesses.find(({ name }, place) => name === "day" && place > 0);
    const more = day ? say("cost.odds_day", { day: shownOdds(day.odds) }) : "";
    find("odds-summary").textContent = say("cost.odds", { first: shownOdds(guesses[0].odds) }) + more;
  }

  /** Show the answer to /api/left: what the release leaves of each statement; null hides the list. */
  showLeft(left) {
    const entry = ({ before, after, verdict }) => {
      const kind = { gone: "gone", uncertain: "open" }[verdict] ?? "there";
      const [statement, measured] = [told(before), told(after.replace(/^(Gone|Uncertain|Still there)[.:] /, "").replace(/^./, upper))];
      const words = create(kind === "gone" ? "s" : "span", { lang: statement.lang }, statement.text);
      const more = create("span", { className: "soft", lang: measured.lang }, measured.text);
      return create("li", { className: kind }, create("strong", {}, say(`left.${kind}`)), " ", words, " ", more);
    };
    // What is hidden comes first.
    const statements = left?.statements ?? [];
    find("left").replaceChildren(...statements.map(entry));
    const some = statements.length > 0;
    show(find("left-block"), some);
    find("left-all").textContent = say("findings.all", { count: statements.length });
    show(find("left-all"), statements.length > SHOWN_LEFT && !find("left").classList.contains("all"));
    // Nothing is simulated for statements that no attack tests.
    const measured = statements.some(({ by_chance }) => by_chance > 0) ? say(left.is_first ? "left.first" : "left.note", { releases: left.releases }) : "";
    find("left-note").textContent = some ? `${measured} ${say("left.alone")}` : "";
  }

  async #showVisibility() {
    const rows = this.#attack?.visibility ?? null;
    if (rows === null && this.#viewContext.truth && this.#attack === null) return;
    const chart = find("visibility-chart");
    show(chart, rows !== null);
    show(find("visibility-empty"), rows === null);
    find("visibility-empty").textContent = say("visibility.no_truth");
    const names = ["appliance", "right", "guess", "visibility", "interval"];
    this.tables.visibility.set(columns("visibility", names), rows && (() => rowsOf.visibility(rows)));
    if (rows !== null) await drawVisibility(chart, rows);
  }

  #showCost() {
    const { cost } = this.#view;
    show(find("money-title").closest("section"), cost !== null);
    if (cost === null) return;
    const { kwh, peak, hourly } = cost;
    const amount = (value) => fixed(value * this.#viewContext.price, 2);
    find("cost-tiles").replaceChildren(
      tile("cost.energy", kilowattHours(kwh.released), kilowattHours(kwh.true), kilowattHours(kwh.error)),
      tile("cost.bill", amount(kwh.released), amount(kwh.true), amount(kwh.error)),
      tile("cost.peak", watts(peak.released), watts(peak.true)),
    );
    find("cost-span").textContent = say("cost.span", { span: stretch(...this.#extent()) });
    const rows = () => hourly.map(([time, metered, released]) => [moment(time), watts(metered), watts(released)]);
    this.tables.cost.set(columns("cost", ["time", "metered", "released"]), rows);
  }

  /** Move the marker to the ε of the slider; the curves themselves do not depend on it. */
  async moveMarker(context) {
    this.#boundsContext = context;
    const curves = this.#bounds;
    const { epsilon, unit } = context;
    show(find("bounds"), Boolean(curves) && epsilon !== null);
    if (!curves || epsilon === null || !find("expert").open) return;
    const nearest = closest(curves, epsilon);
    find("bounds-summary").textContent = say("bounds.summary", {
      epsilon: plain(epsilon),
      unit,
      universal: outOf100(curves.universal[nearest]),
    });
    find("bounds-meaning").textContent = say("bounds.meaning", { floor: outOf100(curves.floor) });
    find("bounds-note").textContent = curves.lower === null ? say("bounds.only_laplace") : "";
    const names = ["epsilon", "log", "exact", "lower", "upper", "universal"];
    this.tables.bounds.set(columns("bounds", names), () => rowsOf.bounds(curves));
    await drawBounds(find("bounds-chart"), curves, epsilon);
  }
}

const upper = (letter) => letter.toUpperCase();

const columns = (panel, names) => names.map((name) => say(`${panel}.columns.${name}`));

const span = ([low = null, high]) => (low === null ? "–" : low === high ? watts(low) : `${watts(low)} … ${watts(high)}`);

/** Returns a function that finds the row for a time; `length` is the length of a reading [ms]. */
function rowAt(points, length) {
  if (points.length === 0) return () => [];
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

/** A bar whose length is a share of the longer one of two. */
function bar(kind, share, words) {
  const fill = create("span", { className: `fill ${kind}` });
  fill.style.width = `${Math.max(0.5, 100 * share)}%`;
  return create("p", { className: "bar" }, create("span", { className: "track-of" }, fill), create("span", {}, words));
}

function tile(key, released, metered, error) {
  const lines = [create("dd", {}, say("cost.instead", { value: metered }))];
  if (error) lines.push(create("dd", { className: "soft" }, say("cost.error", { value: error })));
  const big = create("dd", { className: "big" }, released);
  return create("div", { className: "tile" }, create("dt", {}, say(key)), big, ...lines);
}
