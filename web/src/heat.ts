// When a key is hit: hours of the day by days of the week, of the last two weeks.

import { get } from "./api";
import { fill, h } from "./dom";
import { compact, locale, marked, zone } from "./format";
import type { Series } from "./types";

const weeks = 2;
const hour = 3600;

/** heatMap is a table of 7 by 24 means. Its numbers are there for who can't see colours. */
export async function heatMap(key: string, signal: AbortSignal): Promise<HTMLElement> {
  const now = Date.now() / 1000;
  const to = Math.ceil(now / hour) * hour;
  const series = await get<Series>("v1/series", { key, step: hour, from: to - weeks * 7 * 24 * hour, to }, signal);
  const parts = new Intl.DateTimeFormat("en-US", { weekday: "short", hour: "2-digit", hourCycle: "h23", timeZone: zone() });
  const days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
  const sum = days.map(() => Array.from({ length: 24 }, () => ({ lower: 0, estimate: 0, upper: 0 as number | null, hours: 0 })));
  for (const point of series.points) {
    const at = Object.fromEntries(parts.formatToParts((point.at - hour / 2) * 1000).map((p) => [p.type, p.value]));
    const cell = sum[days.indexOf(at.weekday!)]![Number(at.hour)]!;
    cell.lower += point.lower;
    cell.estimate += point.estimate;
    cell.upper = cell.upper === null || point.upper === null ? null : cell.upper + point.upper;
    cell.hours += Math.min(1, Math.max(0, now - (point.at - hour)) / hour); // the newest hour has only begun
  }
  const mean = sum.map((day) => day.map(({ hours, ...c }) => {
    const of = (hits: number) => (hours ? hits / Math.max(hours, 0.05) : 0);
    return { lower: of(c.lower), estimate: of(c.estimate), upper: c.upper === null ? null : of(c.upper) };
  }));
  const most = Math.max(...mean.flat().map((c) => c.estimate));
  if (most === 0) return h("p", { class: "empty" }, "No hits in the last 2 weeks.");
  const name = new Intl.DateTimeFormat(locale, { weekday: "short", timeZone: "UTC" });
  const table = h("table", { class: "heat" }, h("caption", { class: "away" }, "Mean hits of an hour, by day of the week and hour of the day"),
    h("thead", {}, h("tr", {}, h("td", {}), ...mean[0]!.map((_, i) => h("th", { scope: "col" }, h("span", { class: i % 3 ? "away" : undefined }, String(i).padStart(2, "0")))))),
    h("tbody", {}, ...mean.map((day, d) => h("tr", {}, h("th", { scope: "row" }, name.format(Date.UTC(2024, 0, 1 + d))), ...day.map((value, i) => {
      const cell = h("td", { title: `${name.format(Date.UTC(2024, 0, 1 + d))} ${String(i).padStart(2, "0")}:00: ${marked(value, compact)} hits an hour` }, h("span", { class: "away" }, marked(value, compact)));
      cell.style.setProperty("--part", `${Math.round((value.estimate / most) * 100)}%`);
      return cell;
    })))));
  const element = h("div", {});
  fill(element, h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Heat map" }, table),
    h("p", { class: "legend", "aria-hidden": "true" }, "0", h("span", { class: "scale" }), `${compact(most)} hits an hour`),
    h("p", { class: "said" }, `Mean hits of an hour in the last 2 weeks, at most about ${compact(most)}. Counts are known to about an hour back to a week ago, and to 2.3 hours before.`));
  return element;
}
