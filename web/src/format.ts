// Numbers, times and durations, as the reader's locale writes them.

import { kept } from "./kept";
import type { Bounds, Distinct, Known } from "./types";

export const locale = [...navigator.languages];
const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat(locale, { notation: "compact", maximumFractionDigits: 1 });
const three = new Intl.NumberFormat(locale, { maximumSignificantDigits: 3 });
const percents = new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 0 });
const dollars = new Intl.NumberFormat(locale, { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol" });
const bytesOf = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });

export const number = (n: number) => whole.format(n);
/** microusd is an amount of a millionth of a US dollar each. */
export const microusd = (n: number) => dollars.format(n / 1e6);
export const compact = (n: number) => (Math.abs(n) < 10_000 ? (Math.abs(n) >= 100 || Number.isInteger(n) ? whole.format(n) : three.format(n)) : short.format(n));
export const percent = (n: number) => percents.format(n);

export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${bytesOf.format(n)} ${units[i]}`;
}

/** duration is of seconds: 90 s, 5 min, 1 h 56 min. What is longer than two minutes is rounded to its second unit. */
export function duration(s: number): string {
  const weeks = s / 604800;
  if (weeks >= 1 && Number.isInteger(weeks)) return weeks === 1 ? "1 week" : `${whole.format(weeks)} weeks`;
  if (s >= 119.5 || s === 60) {
    for (const [unit, size, part, least] of [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "s", 1]] as const) {
      const rounded = Math.round(s / least) * least;
      if (rounded < size) continue;
      const rest = rounded % size;
      return `${whole.format((rounded - rest) / size)} ${unit}${rest ? ` ${rest / least} ${part}` : ""}`;
    }
  }
  return s !== 0 && Math.abs(s) < 1 ? `${three.format(s * 1000)} ms` : `${three.format(s)} s`;
}

/** range is what is known of a count that is not exact. */
export const range = (b: Bounds) =>
  b.exact ? "" : b.upper === null ? `${number(b.lower)} or more` : `${number(b.lower)} to ${number(b.upper)}`;

/** mark says before a number whether it is a least (\u2265) or a guess between two bounds (\u2248); "": it is exact. */
export const mark = (b: Known) => (b.upper === null ? "\u2265 " : b.lower === b.upper ? "" : "\u2248 ");

/** marked is what is known, as one number. */
export const marked = (b: Known, write: (n: number) => string) => mark(b) + write(b.upper === null ? b.lower : b.estimate);

/** distinct is a number of ids, with a note that says how exact it is. */
export const distinct = (d: Distinct, note: string): [string, string] =>
  [d.error && d.upper !== null ? `~ ${number(d.estimate)}` : marked(d, number), [d.error ? `\u00b1 ${three.format(100 * d.error)}% is usual` : d.upper !== d.lower && d.upper !== null ? `${number(d.lower)} to ${number(d.upper)}` : "", note].filter(Boolean).join(", ")];

export const count = (b: Bounds) => marked(b, number);

/** units are those that a rate is shown in, so that it has digits before the point. */
const units = [["s", 1], ["min", 60], ["h", 3600], ["d", 86400]] as const;
export function unitOf(perSecond: number): readonly [string, number] {
  return units.find(([, size]) => perSecond * size >= 1) ?? (perSecond > 0 ? units[3] : units[0]);
}

const times = (options: Intl.DateTimeFormatOptions) => {
  const made: Partial<Record<string, Intl.DateTimeFormat>> = {};
  return (at: number) => (made[zone()] ??= new Intl.DateTimeFormat(locale, { ...options, timeZone: zone() })).format(at * 1000);
};

/** zone is the time zone that the reader chose. */
export const zone = () => (kept("weir zone") === "UTC" ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone);

export const clock = times({ hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const minute = times({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = times({ weekday: "short", day: "numeric" });
const date = times({ month: "short", day: "numeric" });
const month = times({ month: "short", year: "numeric" });

/** span writes which day or month a time is in. */
export const span = (unit: string) => (unit === "month" ? month : date);
export const moment = times({ dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });

/** tick is a time on an axis of so many seconds: of the clock, and the date where a day begins. */
export const tick = (span: number) => (at: number) => {
  if (span > 900_000) return date(at);
  return minute(at) === "00:00" && Number.isInteger(at / 60) ? day(at) : span <= 600 ? clock(at) : minute(at);
};
