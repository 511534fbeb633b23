// Strips of on and off: the truth above the guess, with mistakes hatched. They are drawn as SVG,
// and a table gives the same in numbers.

import { duration } from "./format.js";
import { say } from "./texts.js";

const SVG = "http://www.w3.org/2000/svg";
const NARROW = 560;
const BAR = 11;
const GAP = 3;
const LONGEST_NAME = 19;

/** Left and right margin [px]. The chart of the readings has the same, so that times line up. */
export function margins(width) {
  return width < NARROW ? { left: 40, right: 10 } : { left: 144, right: 14 };
}

/** The stretches that lie in both sorted lists of [start, end]. */
export function both(a, b) {
  const found = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const start = Math.max(a[i][0], b[j][0]);
    const end = Math.min(a[i][1], b[j][1]);
    if (start < end) found.push([start, end]);
    if (a[i][1] < b[j][1]) i += 1;
    else j += 1;
  }
  return found;
}

/** The parts of the stretches `a` that lie outside the stretches `b`. */
export function without(a, b) {
  const gaps = [];
  let from = -Infinity;
  for (const [start, end] of b) {
    gaps.push([from, start]);
    from = end;
  }
  gaps.push([from, Infinity]);
  return both(a, gaps);
}

/** Total length of the stretches [s]. */
export const total = (runs) => runs.reduce((sum, [start, end]) => sum + end - start, 0) / 1000;

/** Draw all strips between two times [ms]. */
export function drawStrips(element, strips, [start, end]) {
  const width = element.clientWidth;
  // A hidden element has no width; it is drawn when it is shown.
  if (width === 0) return;
  const narrow = width < NARROW;
  const { left, right } = margins(width);
  const place = (time) => left + ((time - start) / (end - start)) * (width - left - right);
  const row = 2 * BAR + GAP + (narrow ? 24 : 16);
  const svg = make("svg", { width, height: row * strips.length + 4, "aria-hidden": "true" });
  svg.append(patterns());
  strips.forEach((strip, index) => {
    const top = index * row + (narrow ? 20 : 8);
    const group = make("g", { class: "strip" });
    group.append(label(strip, narrow ? { x: 0, y: top - 6 } : { x: left - 12, y: top + BAR + 6 }, narrow));
    group.append(...tracks(strip, top, left, width - right));
    group.append(...bars(strip, top, place));
    svg.append(group);
  });
  element.replaceChildren(svg);
}

function label(strip, { x, y }, narrow) {
  const text = make("text", { x, y, "text-anchor": narrow ? "start" : "end", class: "strip-name" });
  const title = make("title", {});
  title.textContent = strip.appliance;
  text.append(shorten(strip.appliance), title);
  return text;
}

function shorten(name) {
  return name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME - 1)}…` : name;
}

function tracks(strip, top, left, right) {
  return [0, 1].map((line) =>
    make("rect", { x: left, y: top + line * (BAR + GAP), width: right - left, height: BAR, class: "track" }),
  );
}

function bars(strip, top, place) {
  const lower = top + BAR + GAP;
  const { hits, alarms, misses, truth } = split(strip);
  return [
    ...truth.map((run) => bar(run, top, "truth", place)),
    ...hits.map((run) => bar(run, lower, "guess", place)),
    ...alarms.map((run) => bar(run, lower, "alarm", place)),
    ...misses.map((run) => bar(run, lower, "missed", place)),
  ];
}

/** What was seen rightly, seen though off, and missed. */
export function split(strip) {
  return {
    truth: strip.truth,
    hits: without(strip.guess, strip.wrong),
    alarms: both(strip.guess, strip.wrong),
    misses: without(strip.wrong, strip.guess),
  };
}

function bar([start, end], y, kind, place) {
  const x = place(start);
  // A run of seconds must stay visible in a view of weeks.
  return make("rect", { x, y, width: Math.max(1, place(end) - x), height: BAR, class: kind });
}

function patterns() {
  const definitions = make("defs", {});
  const hatch = make("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  hatch.append(make("rect", { width: 5, height: 5, class: "hatch-ground" }), make("rect", { width: 2.2, height: 5, class: "hatch-ink" }));
  const dots = make("pattern", { id: "dots", width: 4, height: 4, patternUnits: "userSpaceOnUse" });
  dots.append(make("rect", { width: 4, height: 4, class: "hatch-ground" }), make("circle", { cx: 2, cy: 2, r: 1.05, class: "hatch-ink" }));
  definitions.append(hatch, dots);
  return definitions;
}

/** The legend, with the same patterns. */
export function drawLegend(element) {
  const kinds = [["truth", "strips.truth"], ["guess", "strips.guess"], ["alarm", "strips.false_alarm"], ["missed", "strips.missed"]];
  element.replaceChildren(
    ...kinds.map(([kind, key]) => {
      const item = document.createElement("li");
      const swatch = make("svg", { width: 22, height: BAR, "aria-hidden": "true" });
      swatch.append(make("rect", { width: 22, height: BAR, class: kind }));
      item.append(swatch, say(key));
      return item;
    }),
  );
}

/** One row for each appliance: really on, detected, missed, detected while off. */
export function stripRows(strips) {
  return strips.map((strip) => {
    const { truth, hits, alarms, misses } = split(strip);
    return [strip.appliance, ...[truth, hits, misses, alarms].map((runs) => duration(total(runs)))];
  });
}

/** The strips in words, for people who cannot see them. */
export function stripSummary(strips) {
  return stripRows(strips)
    .map(([name, on, seen, , alarm]) => say("strips.summary", { name, on, seen, alarm }))
    .join(" ");
}

function make(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
