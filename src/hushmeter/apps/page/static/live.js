// The page of a stream: asks the server again and again, and shows raw against protected values.

import { api } from "./api.js";
import { fillList, find, show } from "./dom.js";
import { TIME_AXIS, axisName, colours, draw, layout } from "./drawing.js";
import { fixed, local, moment, plain, setZone } from "./format.js";
import { ChartTable } from "./tables.js";
import { loadTexts, say } from "./texts.js";

const REFRESH_MS = 10_000;

/** A row of values as a stepped line, each value from the start of its window to its end. */
function stepped(windows, length, pick, name, colour, changes = {}) {
  const x = [];
  const y = [];
  for (const window of windows) {
    const start = Date.parse(window.start);
    const value = pick(window);
    x.push(local(start), local(start + length));
    y.push(value, value);
  }
  return { type: "scatter", mode: "lines", name, x, y, line: { color: colour, width: 2, ...changes }, hovertemplate: "%{y:.3~f}" };
}

function drawWatts(windows, length) {
  const { grey, blue } = colours();
  const kilowatts = (value) => (value === null ? null : value / 1000);
  const traces = [
    stepped(windows, length, (w) => kilowatts(w.raw_w), say("live.raw"), grey),
    stepped(windows, length, (w) => kilowatts(w.protected_w), say("live.published"), blue),
  ];
  const axes = { xaxis: TIME_AXIS, annotations: [axisName(say("live.axis"), 48)] };
  return draw(find("live-chart"), traces, layout({ ...axes, margin: { b: 44 } }));
}

function drawOdds(windows, length) {
  const { red, green, soft } = colours();
  const traces = [
    stepped(windows, length, (w) => percent(w.if_it_ran), say("live.ran"), red),
    stepped(windows, length, (w) => percent(w.if_it_did_not), say("live.did_not"), green, { dash: "dot" }),
  ];
  const coin = { type: "line", xref: "paper", x0: 0, x1: 1, y0: 50, y1: 50, line: { color: soft, width: 1, dash: "dash" } };
  const shape = { xaxis: TIME_AXIS, yaxis: { range: [0, 100] }, annotations: [axisName(say("live.odds_axis"), 48)] };
  return draw(find("live-attacker"), traces, layout({ ...shape, shapes: [coin], margin: { b: 44 } }));
}

const percent = (share) => (share === null ? null : 100 * share);
const cell = (value, write) => (value === null ? "" : write(value));

function rowOf(window) {
  return [
    moment(Date.parse(window.start)),
    cell(window.raw_w, (watts) => fixed(watts, 0)),
    cell(window.protected_w, (watts) => fixed(watts, 0)),
    plain(100 * window.share, 4),
    cell(window.if_it_ran, (share) => fixed(100 * share, 1)),
    cell(window.if_it_did_not, (share) => fixed(100 * share, 1)),
  ];
}

async function refresh(table) {
  const problem = find("live-problem");
  try {
    const { terms, windows, sentences } = await api.live();
    setZone(terms.zone);
    find("live-title").textContent = say("live.title", { name: terms.stream });
    fillList(find("live-sentences"), sentences);
    const columns = ["window", "raw", "published", "share", "ran", "did_not"];
    table.set(columns.map((name) => say(`live.columns.${name}`)), () => windows.map(rowOf));
    const length = 1000 * terms.window_s;
    await Promise.all([drawWatts(windows, length), drawOdds(windows, length)]);
    const last = windows.length ? moment(Date.parse(windows.at(-1).start) + length) : "";
    find("live-updated").textContent = say(last ? "live.updated" : "live.waiting", { zone: terms.zone, last });
    show(problem, false);
  } catch (error) {
    problem.textContent = error.message;
    show(problem);
  }
}

await loadTexts();
const table = new ChartTable(find("live-table"));
for (;;) {
  await refresh(table);
  await new Promise((resolve) => setTimeout(resolve, REFRESH_MS));
}
