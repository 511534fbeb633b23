// Loads plotly.js from the installed package and gives all charts the same style.

import { locale, say } from "./texts.js";

const DAY_MS = 86_400_000;

/** A time axis with weekdays, in the language of the page. */
export const TIME_AXIS = {
  type: "date",
  hoverformat: "%Y-%m-%d %H:%M:%S",
  tickformatstops: [
    { dtickrange: [null, DAY_MS - 1], value: "%H:%M\n%a %-d %b %Y" },
    { dtickrange: [DAY_MS, null], value: "%a %-d\n%b %Y" },
  ],
};

let loading = null;

/** The Plotly object; the script is loaded once. */
export function loadPlotly() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    const restore = keepMapStylesOut();
    script.src = "/plotly.min.js";
    script.onload = () => {
      restore();
      nameDays(globalThis.Plotly);
      resolve(globalThis.Plotly);
    };
    script.onerror = () => {
      restore();
      loading = null;
      reject(new Error(say("error.charts")));
    };
    document.head.append(script);
  });
  return loading;
}

/** plotly.js has English names of days and months only; the browser knows those of the page. */
function nameDays(plotly) {
  const names = (options, count, date) => Array.from({ length: count }, (_, i) => new Intl.DateTimeFormat(locale(), { ...options, timeZone: "UTC" }).format(date(i)));
  // The fourth of January 1970 was a Sunday.
  const day = (i) => Date.UTC(1970, 0, 4 + i);
  const month = (i) => Date.UTC(1970, i, 1);
  const format = {
    days: names({ weekday: "long" }, 7, day),
    shortDays: names({ weekday: "short" }, 7, day),
    months: names({ month: "long" }, 12, month),
    shortMonths: names({ month: "short" }, 12, month),
  };
  plotly.register({ moduleType: "locale", name: "page", dictionary: {}, format });
  plotly.setPlotConfig({ locale: "page" });
}

/**
 * plotly.js adds an inline style sheet for its maps, unless the page has an element whose id is the
 * digest of that sheet. The page draws no map, and its policy forbids inline styles. Therefore
 * plotly.js finds an element under that id while it loads.
 */
function keepMapStylesOut() {
  const find = document.getElementById;
  document.getElementById = (id) =>
    /^[0-9a-f]{64}$/.test(id) ? document.head : find.call(document, id);
  return () => delete document.getElementById;
}

/** The colours of the style sheet, in their present light or dark version. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "soft", "line", "paper", "blue", "green", "red", "orange", "grey"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** The layout that all charts share, with changes to it; axes and margins are merged. */
export function layout(changes) {
  const { ink, soft, line, paper } = colours();
  const axis = {
    fixedrange: true,
    gridcolor: line,
    linecolor: line,
    zeroline: false,
    tickfont: { color: soft },
  };
  const shared = {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 13, color: soft },
    hoverlabel: { bgcolor: paper, bordercolor: line, font: { color: ink } },
    hovermode: "x",
    dragmode: false,
    showlegend: false,
    margin: { l: 48, r: 12, t: 26, b: 36 },
    xaxis: { ...axis, showgrid: false },
    yaxis: { ...axis, rangemode: "tozero" },
  };
  const merged = { ...shared, ...changes };
  for (const key of ["xaxis", "yaxis", "margin"]) merged[key] = { ...shared[key], ...changes[key] };
  return merged;
}

/** A name without markup: plotly.js would turn tags in a text into markup, even into links. */
export function unmarked(name) {
  return name.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** The name of the y axis, written above the axis; `left` is the left margin of the chart. */
export function axisName(text, left) {
  return {
    text,
    showarrow: false,
    xref: "paper",
    yref: "paper",
    x: 0,
    y: 1,
    xanchor: "left",
    xshift: 6 - left,
    yanchor: "bottom",
    yshift: 6,
    font: { color: colours().soft },
  };
}

/** Draw or redraw a chart in place. */
export async function draw(element, traces, shape) {
  const plotly = await loadPlotly();
  await plotly.react(element, traces, shape, { displayModeBar: false, responsive: true });
}
