// One key: how often it was hit in the usual windows, and over time.

import { get } from "./api";
import { Chart, plotOf } from "./chart";
import { fill, h, name, shown, text } from "./dom";
import { heatMap } from "./heat";
import { HistoryCard } from "./history";
import { RegionParts } from "./regions";
import { duration, moment } from "./format";
import { card, Change, Count, Notices, spoken, windowTabs, type Page } from "./parts";
import { link, windowOf, type Place } from "./place";
import type { KeyAnswer, Line, Series } from "./types";

const lengths: Record<string, number> = { "1m": 60, "5m": 300, "1h": 3600, "1d": 86400, "1w": 604800 };

export function keyPage(place: Place): { page: Page; path: string; params: Record<string, string | string[]>; view(of: KeyAnswer): void } {
  const key = place.name;
  const window = windowOf(place, "1h");
  const from = Number(place.params.get("from"));
  const to = Number(place.params.get("to"));
  const closer = to > from;
  const others = place.params.getAll("with").filter((other) => other !== key).slice(0, 4);
  const notices = new Notices();
  const unknown = h("p", { class: "empty", role: "status" });
  const counts = new Map<number, { count: Count; change: Change }>();
  const tiles = h("dl", { class: "tiles counts" }, ...Object.entries(lengths).map(([w, seconds]) => {
    const made = { count: new Count(), change: new Change() };
    counts.set(seconds, made);
    return h("div", { class: "tile" }, h("dt", {}, spoken[w]!), h("dd", {}, made.count.element, made.change.element));
  }));
  const zoom = zoomed(key, { window, with: others });
  const chart = new Chart(`Hits of ${shown(key)}`, zoom, 300);
  const state = { from: 0, to: 0 };
  const button = (title: string, icon: string, change: (span: number) => [number, number]) =>
    h("button", { type: "button", class: "icon", "aria-label": title, title, click: () => { const [left, right] = change(state.to - state.from); zoom(state.from + left, state.to + right); } }, icon);
  const tools = h("div", { class: "tools", role: "group", "aria-label": "Zoom, or drag over the chart" },
    button("Earlier", "\u2190", (s) => [-s / 2, -s / 2]), button("Later", "\u2192", (s) => [s / 2, s / 2]), button("Closer", "+", (s) => [s / 4, -s / 4]), button("Wider", "\u2212", (s) => [-s / 2, s / 2]),
    closer && h("a", { class: "button", href: link("key", key, { window, with: others }) }, "Now"));
  const said = h("p", { class: "said" });
  const asking = new AbortController();

  const compare = h("input", {
    type: "search", "aria-label": "Compare with another key", placeholder: "Compare with another key", spellcheck: "false", autocapitalize: "off", maxlength: 512,
    change: () => { if (compare.value && others.length < 4) location.hash = link("key", key, { window, with: [...others, compare.value] }); },
  });
  const compared = h("p", { class: "compared" }, ...others.map((other, i) => h("a", {
    class: "button", href: link("key", key, { window, with: others.filter((o) => o !== other) }), "aria-label": `Leave out ${other}`,
  }, h("span", { class: `dot of${i}` }), name(other), " \u00d7")));
  const plot = (line: Line, before?: number[], beside: { key: string; line: number[] }[] = []) => {
    state.from = line.from;
    state.to = line.to;
    chart.draw(plotOf(line, "Hits", [
      ...(before ? [{ label: `${spoken[window]} before`, values: before, color: "--muted", dashed: true }] : []),
      ...beside.map((other, i) => ({ label: shown(other.key), values: other.line, color: `--other${i}` })),
    ]));
    fill(said, closer ? `${moment(line.from)} to ${moment(line.to)}, ` : "", `each point is ${duration(line.step_s)}`, line.lower ? "; the band shows the bounds" : "; exact");
  };
  const ask = async () => {
    try {
      const step = stepOf(to - from);
      const series = await get<Series>("v1/series", { key, step, from: onSlot(from, step), to: onSlot(to + step - 1, step) }, asking.signal);
      const exact = series.points.every((p) => p.exact);
      plot({
        from: series.from, to: series.to, step_s: series.step_s, estimate: series.points.map((p) => p.estimate),
        lower: exact ? undefined : series.points.map((p) => p.lower), upper: exact ? undefined : series.points.map((p) => p.upper),
      });
    } catch (failure) {
      if (!asking.signal.aborted) fill(said, String((failure as Error).message));
    }
  };
  if (closer) void ask();
  const heat = h("div", {}, h("p", { class: "said" }, "Asking\u2026"));
  void heatMap(key, asking.signal).then((made) => fill(heat, made), (failure) => asking.signal.aborted || fill(heat, h("p", { class: "said" }, (failure as Error).message)));

  const regions = new RegionParts();
  const past = new HistoryCard(key);
  const element = h("div", { class: "page" },
    h("div", { class: "title" }, h("h1", { tabindex: -1, class: "key" }, name(key)), windowTabs(place, closer ? "" : window)),
    notices.element,
    card("Hits in the last", null, tiles, unknown),
    card(chart.titled(closer ? "Hits, closer" : `Hits over ${spoken[window]}`), tools, chart.element, said, closer ? null : h("div", { class: "row" }, compare, compared)),
    regions.element, past.element,
    card("By hour and day of the week", null, heat));
  return {
    page: { title: shown(key), element, close: () => (asking.abort(), chart.close(), past.close()) },
    path: "v1/views/key", params: { key, window, with: others },
    view(of) {
      notices.set([], of.late);
      for (const one of of.counts) {
        const made = counts.get(one.window_s);
        made?.count.set(one);
        made?.change.set(one, one.before);
      }
      const none = of.counts.every((c) => c.upper === 0) && (of.regions ?? []).every((r) => r.counts.every((c) => c.upper === 0));
      text(unknown, none ? "No hit of this key is known in the last week: it was never counted, or longer ago. Is its name right?" : "");
      regions.set(of.regions);
      if (!closer) plot(of.line, of.before, of.with);
    },
  };
}

/** zoomed shows a time of a key, 8 s at least. */
export const zoomed = (key: string, more: Record<string, string | string[] | undefined> = {}) => (from: number, to: number) => {
  const least = Math.max(to - from, 8);
  location.hash = link("key", key, { ...more, from: String(Math.floor((from + to - least) / 2)), to: String(Math.ceil((from + to + least) / 2)) });
};

/** stepOf divides a span into at most 120 parts of a power of two. */
function stepOf(span: number): number {
  let step = 1;
  while (span / step > 120) step *= 2;
  return step;
}

/** onSlot is the last second before a slot of the server's memory begins: parts that end there are exact for longest. */
const onSlot = (at: number, step: number) => Math.floor((at + 1) / step) * step - 1;
