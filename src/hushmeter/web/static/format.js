// Numbers and times as people read them.

import { locale, say } from "./texts.js";

const number = (digits) => new Intl.NumberFormat(locale(), { maximumSignificantDigits: digits });

/** Three significant digits, without noughts at the end. */
export const plain = (value, digits = 3) => number(digits).format(value);

/** The same for a field that a person edits: a point, and no groups of thousands. */
export const bare = (value, digits = 6) => String(Number(value.toPrecision(digits)));

/** Watts below 1000, kilowatts from there on. */
export function watts(value) {
  return Math.abs(value) >= 1000 ? `${plain(value / 1000)} kW` : `${plain(value)} W`;
}

/** A share as so many of 100, never rounded up to certainty. */
export function ofHundred(share) {
  const rounded = Math.round(share * 1000) / 10;
  return plain(rounded === 100 && share < 1 ? 99.9 : rounded, 4);
}

/** Energy with at least two decimals where it is small. */
export function kilowattHours(value) {
  return `${fixed(value, Math.abs(value) >= 1000 ? 0 : 2)} kWh`;
}

/** So many decimals, always. */
export function fixed(value, decimals) {
  const options = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return new Intl.NumberFormat(locale(), options).format(value);
}

/** Money in a currency, or a bare amount where the currency is not known. */
export function money(value, currency) {
  try {
    return new Intl.NumberFormat(locale(), { style: "currency", currency }).format(value);
  } catch {
    return fixed(value, 2);
  }
}

/** A length of time in its largest fitting unit. */
export function duration(seconds) {
  for (const [size, unit] of [[172_800, "days"], [3600, "hours"], [60, "minutes"]]) {
    const length = unit === "days" ? 86_400 : size;
    if (seconds >= size) return `${plain(seconds / length)} ${say(`unit_of.${unit}`)}`;
  }
  return `${plain(seconds)} ${say("unit_of.seconds")}`;
}

/** A moment in UTC, with seconds only where asked. */
export function moment(time, { seconds = false, day = true } = {}) {
  return new Intl.DateTimeFormat(locale(), {
    ...(day && { day: "numeric", month: "short", year: "numeric" }),
    hour: "2-digit",
    minute: "2-digit",
    ...(seconds && { second: "2-digit" }),
    hourCycle: "h23",
    timeZone: "UTC",
  }).format(new Date(time));
}

const utcDay = (time) => new Date(time).toISOString().slice(0, 10);

/** From one moment to another; the day is named once where it is the same. */
export function stretch(start, end) {
  const sameDay = utcDay(start) === utcDay(end);
  return `${moment(start)} – ${moment(end, { day: !sameDay })}`;
}

/** What a person typed as a number, or NaN; a comma may stand for the point. */
export function typedNumber(text) {
  const tidy = text.trim().replace(",", ".");
  return tidy === "" ? Number.NaN : Number(tidy);
}
