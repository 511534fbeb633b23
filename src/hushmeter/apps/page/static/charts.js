// The charts of the page. Each function draws one answer of the server.

import { fixed, local, plain } from "./format.js";
import { TIME_AXIS, axisName, colours, draw, layout, unmarked } from "./drawing.js";
import { margins } from "./strips.js";
import { say } from "./texts.js";

// An attacker may be far worse than a guess; how much worse does not concern the household.
const LEAST_VISIBILITY = -25;

// A finding with more marks, or with marks over a larger share of the chart, is drawn only on request.
const MOST_MARKS = 40;
const MOST_COVERED = 0.25;

/** The metered readings without noise, with what shows in them marked. */
export function drawReadings(element, view, { metered_s, range, marks, chosen }) {
  const { blue, orange, ink } = colours();
  const inside = marks.filter(({ start, end }) => end > range[0] && start < range[1]);
  const shown = chosen ? inside : readable(inside, range);
  const ends = range.map(local);
  const share = (time) => (local(time) - ends[0]) / (ends[1] - ends[0]);
  // A mark of a few seconds must stay visible in a view of a week.
  const least = 3 / Math.max(1, element.clientWidth);
  const shapes = shown.map(({ start, end }) => {
    const x0 = Math.max(0, share(start));
    const x1 = Math.min(1, Math.max(share(end), x0 + least));
    return { type: "rect", xref: "paper", yref: "paper", x0, x1, y0: 0, y1: 1, fillcolor: orange, opacity: 0.25, line: { width: 0 }, layer: "below" };
  });
  const middle = ({ start, end }) => Math.min(0.99, Math.max(0.01, (share(start) + share(end)) / 2));
  const apart = 18 / Math.max(1, element.clientWidth);
  const numbers = spacedOut(shown, middle, apart).map((mark) => ({
    text: String(mark.number), xref: "paper", x: middle(mark),
    yref: "paper", y: 1, yanchor: "bottom", showarrow: false, font: { color: ink, size: 12 },
  }));
  const { left, right } = margins(element.clientWidth);
  return draw(
    element,
    [lineOf(view.metered, metered_s, say("trace.metered"), blue, 1.6)],
    layout({
      margin: { l: Math.min(left, 48), r: right, b: 44 },
      xaxis: { ...TIME_AXIS, range: ends },
      annotations: [axisName(say("trace.axis"), Math.min(left, 48)), ...numbers],
      shapes,
    }),
  );
}

/** The marks without those of findings that would cover the curve. */
function readable(marks, [start, end]) {
  const groups = Object.values(Object.groupBy(marks, ({ number }) => number));
  const length = (group) => group.reduce((sum, mark) => sum + Math.min(mark.end, end) - Math.max(mark.start, start), 0);
  return groups.filter((group) => group.length <= MOST_MARKS && length(group) <= MOST_COVERED * (end - start)).flat();
}

/** The first marks from left to right that are at least `apart` from each other. */
function spacedOut(marks, place, apart) {
  const kept = [];
  for (const mark of [...marks].sort((a, b) => a.start - b.start)) {
    if (kept.length === 0 || place(mark) - place(kept.at(-1)) >= apart) kept.push(mark);
  }
  return kept;
}

/** A curve of readings that are `seconds` long; reduced ones are drawn as a zigzag. */
function lineOf(points, seconds, name, color, width) {
  const times = points.map(([time, ...powers]) => [local(time), ...powers]);
  return {
    ...(isThinned(times) ? zigzag(times) : steps(times, 1000 * seconds)),
    name,
    type: "scatter",
    mode: "lines",
    line: { color, width, shape: isThinned(times) ? "linear" : "hv" },
    hovertemplate: "%{y:.3~f} kW",
  };
}

/** The metered readings in grey, the released ones in blue and, if there are any, restored ones. */
export function drawTrace(element, view, { metered_s, range, restored, strips }) {
  const { grey, blue, green } = colours();
  const { left: wide, right } = margins(element.clientWidth);
  // The strips below have their names on the left; without strips there is nothing to line up with.
  const left = strips ? wide : Math.min(wide, 48);
  // A few long released readings are drawn above the many metered ones, as strong lines.
  const coarser = view.interval_s > metered_s;
  const released = lineOf(view.released, view.interval_s, say("trace.released"), blue, coarser ? 2.4 : 1);
  const metered = lineOf(view.metered, metered_s, say("trace.metered"), grey, coarser ? 1 : 2);
  const traces = coarser ? [metered, released] : [{ ...released, opacity: 0.55 }, metered];
  if (restored) {
    const line = lineOf(restored, view.interval_s, say("trace.restored"), green, 2);
    traces.push({ ...line, line: { ...line.line, dash: "dot" } });
  }
  return draw(
    element,
    traces,
    layout({
      margin: { l: left, r: right, b: 44 },
      xaxis: { ...TIME_AXIS, range: range.map(local) },
      annotations: [axisName(say("trace.axis"), left)],
    }),
  );
}

/** Released values with their standard errors, beside the metered values. */
export function drawEstimates(element, rows, unit) {
  const { grey, blue } = colours();
  const x = rows.map(({ label }) => label);
  const metered = {
    type: "bar", name: say("trace.metered"), x, y: rows.map((row) => row.metered), marker: { color: grey, opacity: 0.45 }, hovertemplate: `%{y:.4~g} ${unit}`,
  };
  const released = {
    type: "scatter", mode: "markers", name: say("trace.released"), x, y: rows.map((row) => row.value), marker: { color: blue, size: 7 },
    error_y: { type: "data", array: rows.map((row) => row.error), color: blue, thickness: 1.6, width: 3 }, hovertemplate: `%{y:.4~g} ${unit}`,
  };
  return draw(element, [metered, released], layout({ bargap: 0.25, xaxis: { type: "category", automargin: true }, annotations: [axisName(unit, 48)] }));
}

/** The lowest and highest power of each stretch as one line in kW, so that spikes stay visible. */
function zigzag(points) {
  const x = [];
  const y = [];
  for (const [time, low, high] of points) {
    x.push(time);
    y.push(low === null ? null : low / 1000);
    if (high !== low) {
      x.push(time);
      y.push(high / 1000);
    }
  }
  return { x, y };
}

/** One point for every reading in kW; the last one before a gap is drawn with its full length. */
function steps(points, length) {
  const x = [];
  const y = [];
  points.forEach(([time, low], i) => {
    const next = points[i + 1]?.[1] ?? null;
    x.push(time);
    y.push(low === null ? null : low / 1000);
    if (low !== null && next === null) {
      x.push(time + length);
      y.push(low / 1000);
    }
  });
  return { x, y };
}

const isThinned = (points) => points.some(([, low, high]) => low !== high);

/** The visibility of every appliance: how much better the attacker is than a guess without data. */
export function drawVisibility(element, rows) {
  const { blue, grey, soft, ink } = colours();
  const wide = element.clientWidth >= 620;
  const names = rows.map((row) => unmarked(row.appliance));
  const shares = rows.map((row) => 100 * (row.visibility ?? 0));
  const lows = rows.map((row, i) => shares[i] - 100 * (row.low ?? row.visibility ?? 0));
  const highs = rows.map((row, i) => 100 * (row.high ?? row.visibility ?? 0) - shares[i]);
  const bars = {
    type: "bar",
    orientation: "h",
    x: shares,
    y: names,
    width: 0.55,
    marker: { color: shares.map((share) => (share > 0 ? blue : grey)) },
    error_x: { type: "data", array: highs, arrayminus: lows, color: ink, thickness: 1.4, width: 4 },
    hovertemplate: "%{y}: %{x:.1f}<extra></extra>",
  };
  const text = rows.map((row, index) => ({
    text: say("visibility.text", { right: odds(row, 0), guess: odds(row, 1) }),
    x: 1,
    xref: "paper",
    xanchor: "left",
    xshift: 12,
    y: index,
    showarrow: false,
    font: { color: soft },
  }));
  const worst = Math.min(0, ...rows.map((row, i) => shares[i] - lows[i]));
  element.style.height = `${64 + 34 * rows.length}px`;
  return draw(
    element,
    [bars],
    layout({
      hovermode: "closest",
      margin: { l: 12, r: wide ? 266 : 12, t: 6, b: 44 },
      xaxis: {
        range: [Math.max(LEAST_VISIBILITY, worst - 4), 104],
        showgrid: true,
        zeroline: true,
        zerolinecolor: ink,
        title: { text: say("visibility.axis"), standoff: 8, font: { size: 13 } },
      },
      yaxis: { type: "category", autorange: "reversed", automargin: true, showgrid: false, ticklabelstandoff: 8 },
      annotations: wide ? text : [],
    }),
  );
}

const odds = (row, which) => plain(row.odds[which], 4);

/** The accuracy against ln(1/ε) with all bounds, and a marker at the ε of the slider. */
export function drawBounds(element, curves, epsilon) {
  const { blue, green, grey, red, ink } = colours();
  const x = curves.ln_inverse;
  const here = -Math.log(epsilon);
  const line = (y, name, style, more = {}) => ({
    x,
    y,
    name,
    type: "scatter",
    mode: "lines",
    line: style,
    hovertemplate: "%{y:.3f}",
    ...more,
  });
  const quiet = { hoverinfo: "skip", hovertemplate: undefined };
  const proved = curves.lower === null ? [] : [
    line(curves.lower, say("bounds.lower"), { color: blue, width: 1, dash: "dot" }),
    line(curves.upper, say("bounds.upper"), { color: blue, width: 1, dash: "dash" }, {
      fill: "tonexty",
      fillcolor: `${blue}22`,
    }),
  ];
  const traces = [
    ...proved,
    line(curves.universal, say("bounds.universal"), { color: green, width: 2 }),
    line(x.map(() => curves.floor), say("bounds.floor"), { color: grey, width: 1.6, dash: "dot" }, quiet),
  ];
  if (curves.exact) traces.push(line(curves.exact, say("bounds.curve"), { color: blue, width: 2.6 }));
  const empty = emptyBounds(curves);
  if (empty.x.length) {
    traces.push({
      ...empty,
      name: say("bounds.vacuous"),
      mode: "markers",
      marker: { symbol: "x-thin", size: 6, line: { color: red, width: 1.4 } },
      ...quiet,
    });
  }
  const narrow = element.clientWidth < 560;
  return draw(
    element,
    traces,
    layout({
      showlegend: true,
      legend: { orientation: "h", y: narrow ? -0.34 : -0.24, yanchor: "top", x: 0, font: { color: ink } },
      margin: { l: 44, r: 12, t: 30, b: narrow ? 150 : 110 },
      xaxis: {
        range: [Math.max(...x, here), Math.min(...x, here)],
        title: { text: say("bounds.axis"), standoff: 10, font: { size: 13 } },
      },
      yaxis: { range: [-0.02, 1.04], tickformat: ".1f" },
      annotations: [axisName(say("bounds.accuracy"), 44), hereLabel(here, ink), ...directions()],
      shapes: [{ type: "line", x0: here, x1: here, y0: 0, y1: 1, yref: "paper", line: { color: ink, width: 2 } }],
    }),
  );
}

/** Some crosses on each bound where it is vacuous. */
function emptyBounds(curves) {
  const points = ["lower", "upper"].flatMap((bound) =>
    curves.ln_inverse
      .map((x, i) => [x, curves[bound]?.[i], curves[`${bound}_vacuous`]?.[i]])
      .filter(([, , vacuous], i) => vacuous && i % 3 === 0),
  );
  return { x: points.map(([x]) => x), y: points.map(([, y]) => y) };
}

/** Labels below the two ends of the axis that say which direction is more private. */
function directions() {
  const end = (key, x, xanchor) => ({
    text: say(key),
    x,
    xanchor,
    xref: "paper",
    y: 0,
    yref: "paper",
    yanchor: "top",
    yshift: -26,
    showarrow: false,
  });
  return [end("bounds.private", 0, "left"), end("bounds.exact", 1, "right")];
}

function hereLabel(x, color) {
  return {
    text: say("bounds.here"),
    x,
    y: 1,
    yref: "paper",
    yanchor: "bottom",
    yshift: 4,
    showarrow: false,
    font: { color },
  };
}

/** The rows behind a chart, for the tables. */
export const rowsOf = {
  visibility: (rows) =>
    rows.map((row) => [
      row.appliance,
      odds(row, 0),
      odds(row, 1),
      row.visibility === null ? "–" : fixed(100 * row.visibility, 1),
      row.low === null ? "–" : `${fixed(100 * row.low, 1)} … ${fixed(100 * row.high, 1)}`,
    ]),
  bounds: (curves) =>
    curves.epsilon.map((epsilon, i) => [
      plain(epsilon),
      fixed(curves.ln_inverse[i], 2),
      ...["exact", "lower", "upper", "universal"].map((name) =>
        curves[name]?.[i] == null ? "–" : fixed(curves[name][i], 3),
      ),
    ]),
};
