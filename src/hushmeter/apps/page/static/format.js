// Numbers and times in the form in which people read them.

import { locale, say } from "./texts.js";

const number = (digits) => new Intl.NumberFormat(locale(), { maximumSignificantDigits: digits });

/** A number with three significant digits and without zeros at the end. */
export const plain = (value, digits = 3) => number(digits).format(value);

/** A number for a field that a person edits: with a decimal point and no thousands separators. */
export const bare = (value, digits = 6) => String(Number(value.toPrecision(digits)));

/** A power in watts, or in kilowatts from 1000 W on. */
export function watts(value) {
  return Math.abs(value) >= 1000 ? `${plain(value / 1000)} kW` : `${plain(value)} W`;
}

/** A share as a number out of 100. It is never rounded up to certainty. */
export function outOf100(share) {
  const rounded = Math.round(share * 1000) / 10;
  return plain(rounded === 100 && share < 1 ? 99.9 : rounded, 4);
}

/** An energy with two decimals, or with none from 1000 kWh on. */
export function kilowattHours(value) {
  // Two decimals would make nothing of a small error.
  if (value !== 0 && Math.abs(value) < 0.01) return `${plain(1000 * value, 2)} Wh`;
  return `${fixed(value, Math.abs(value) >= 1000 ? 0 : 2)} kWh`;
}

/** A number with exactly this many decimals. */
export function fixed(value, decimals) {
  const options = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return new Intl.NumberFormat(locale(), options).format(value);
}

/** A length of time in the largest unit that fits. */
export function duration(seconds) {
  for (const [size, unit] of [[172_800, "days"], [3600, "hours"], [60, "minutes"]]) {
    const length = unit === "days" ? 86_400 : size;
    if (seconds >= size) return `${plain(seconds / length)} ${say(`unit_of.${unit}`)}`;
  }
  return `${plain(seconds)} ${say("unit_of.seconds")}`;
}

let zone = "UTC";

/** Set the time zone in which all times are shown. */
export function setZone(name) {
  zone = name;
  clock = clockOf(name);
  offsets.clear();
}

const clockOf = (timeZone) =>
  new Intl.DateTimeFormat("en-GB", {
    year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric",
    hourCycle: "h23", timeZone,
  });

let clock = clockOf(zone);

const offsets = new Map();
const OFFSET_STEP = 900_000;

/**
 * A time [ms since 1970, UTC] shifted so that charts, which know no time zones, show local time.
 * Clocks change at whole quarters of an hour, so that one offset for each quarter is enough.
 */
export function local(time) {
  const quarter = Math.floor(time / OFFSET_STEP);
  if (!offsets.has(quarter)) offsets.set(quarter, offsetAt(quarter * OFFSET_STEP));
  return time + offsets.get(quarter);
}

function offsetAt(time) {
  const parts = clock.formatToParts(new Date(time));
  const part = Object.fromEntries(parts.map(({ type, value }) => [type, Number(value)]));
  const shown = Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second);
  return shown - Math.floor(time / 1000) * 1000;
}

/** A date and time in the time zone of the home, with seconds only on request. */
export function moment(time, { seconds = false, day = true } = {}) {
  return new Intl.DateTimeFormat(locale(), {
    ...(day && { day: "numeric", month: "short", year: "numeric" }),
    hour: "2-digit",
    minute: "2-digit",
    ...(seconds && { second: "2-digit" }),
    hourCycle: "h23",
    timeZone: zone,
  }).format(new Date(time));
}

const dayOf = (time) => new Date(local(Number(new Date(time)))).toISOString().slice(0, 10);

/** A period of time; a day that is the same at both ends is named once. */
export function stretch(start, end) {
  const sameDay = dayOf(start) === dayOf(end);
  return `${moment(start)} – ${moment(end, { day: !sameDay })}`;
}

/** The number that a person typed, or NaN. The decimal sign may be a comma. */
export function typedNumber(text) {
  const tidy = text.trim().replace(",", ".");
  return tidy === "" ? Number.NaN : Number(tidy);
}
