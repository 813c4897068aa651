// A report of weir replay or weir limits replay: one page that holds all that it shows.

import "./style.css";
import { Chart, type Plot, Tile } from "./chart";
import { attr, fill, h, name, text } from "./dom";
import { bytes, compact, distinct, duration, moment, number, percent, unitOf, zone } from "./format";
import { keep, kept } from "./kept";
import { card, mark } from "./parts";
import type { Distinct } from "./types";

interface File { name: string; lines: number; hits: number; late: number; ahead: number; malformed: number; problem?: string }
interface Malformed { file: string; line: number; reason: string; text: string }
interface Common {
  stopped_early?: string; files: File[]; format?: string; lines: number; ahead: number; malformed: number; late: number;
  first?: number; last?: number; span_s: number; malformed_lines?: Malformed[];
}
interface Replay extends Common {
  hits: number; line?: { from: number; step_s: number; hits: number[] }; warning?: string; refused: number; evicted_keys: number;
  busiest: { window_s: number; at: number; hits: number }[]; now: { window_s: number; hits: number; per_second: number }[];
  top?: { template: string; keys: { key: string; estimate: number; lower: number; upper: number }[]; of: number; keyless: number }[];
  views?: number; visitors?: Distinct;
}
interface Limit {
  name: string; keys: string; by?: string; limit: number; per_s: number; burst: number; algorithm: string; mode: string; enforced: boolean;
  requests: number; allowed: number; denied: number; denied_share: number; denied_by_others: number; distinct_keys: number; denied_keys: number;
  worst_minute?: { at: number; denied: number }; needs: { limit: number; burst: number; denied_share: number; denied: number; or_less: boolean }[];
  timeline: { start: number; bucket_s: number; requests: number[]; denied: number[] };
  top: { key: string; requests: number; denied: number; denied_share: number; longest_stretch_s: number; at_least?: boolean }[];
}
interface Limits extends Common { policies: string; requests: number; unmatched: number; allowed: number; denied: number; summary: string[]; limits: Limit[]; approximate?: string[]; warnings?: string[] }
interface Data { kind: "replay" | "limits"; made: number; version: string; report: Replay | Limits }

/** plot is counts of parts as rates. */
function plot(from: number, step: number, lines: { label: string; color: string; counts: number[] }[]): Plot {
  const [unit, seconds] = unitOf(Math.max(0, ...lines.flatMap((l) => l.counts)) / step);
  return {
    x: lines[0]!.counts.map((_, i) => from + (i + 0.5) * step), unit, span: lines[0]!.counts.length * step,
    traces: lines.map((l, i) => ({ label: l.label, color: l.color, values: l.counts.map((n) => (n / step) * seconds), area: i === 0 })),
  };
}

const table = (caption: string, columns: [string, string?][], rows: (Node | string)[][]) => h("div", { class: "scroll" },
  h("table", {}, h("caption", { class: "away" }, caption), h("thead", {}, h("tr", {}, ...columns.map(([title, kind]) => h("th", { scope: "col", class: kind }, kind === "share" ? h("span", { class: "away" }, title) : title)))),
    h("tbody", {}, ...rows.map((cells) => h("tr", {}, ...cells.map((cell, i) => (i === 0 ? h("th", { scope: "row", class: columns[i]![1] === "key" ? "key" : undefined }, cell) : h("td", { class: columns[i]![1] }, cell))))))));

const meter = (part: number) => h("meter", { min: 0, max: 1, value: part, "aria-hidden": "true" });
const range = (k: { lower: number; upper: number; estimate: number }) => (k.lower === k.upper ? number(k.estimate) : `\u2248 ${number(k.estimate)} (${number(k.lower)} to ${number(k.upper)})`);

function tile(title: string, value: string, note = "", kind = "", main = false): HTMLElement {
  const made = new Tile(title, main);
  made.set(value, note, kind);
  return made.element;
}

function notices(of: Common, more: string[]): HTMLElement {
  const all = [...(of.stopped_early ? [`Stopped early: ${of.stopped_early}`] : []), ...more, ...of.files.flatMap((f) => (f.problem ? [`${f.name}: ${f.problem}`] : []))];
  return h("ul", { class: "notices", role: "list", hidden: all.length === 0 }, ...all.map((a) => h("li", {}, a)));
}

const draws: (() => void)[] = [];
function chart(label: string, title: string, made: Plot, counted: string): HTMLElement {
  const of = new Chart(label, undefined, 260, counted);
  draws.push(() => of.draw(made));
  return card(of.titled(title), null, of.element);
}

function replayPage(r: Replay): (Node | null)[] {
  const peak = r.busiest[0];
  return [
    notices(r, r.warning ? [r.warning] : []),
    h("div", { class: "tiles" },
      tile("Hits", number(r.hits), `in ${number(r.lines)} lines`, "", true),
      ...(r.visitors ? [tile("Views", number(r.views ?? 0)), tile("Visitors", ...distinct(r.visitors, "counted anew every day"))] : []),
      tile("Span", r.span_s ? duration(r.span_s) : "none", r.first !== undefined && r.last !== undefined ? `${moment(r.first)} to ${moment(r.last)}` : ""),
      tile("Mean", r.span_s ? `${compact(r.hits / r.span_s)}/s` : "0"),
      tile("Busiest second", peak ? number(peak.hits) : "0", peak ? moment(peak.at) : "")),
    r.line ? chart("Hits of the log", "Hits over time", plot(r.line.from, r.line.step_s, [{ label: "Hits", color: "--accent", counts: r.line.hits }]), "hits") : null,
    ...(r.top ?? []).map((t) => card(`Top keys of ${t.template}`, t.keyless ? h("span", { class: "quiet" }, `${number(t.keyless)} hits have none`) : null,
      table(`Keys of ${t.template} with most hits`, [["Key", "key"], ["Hits", "n"], ["Of all", "n"], ["Share of the first", "share"]],
        t.keys.map((k) => [name(k.key), range(k), percent(k.estimate / Math.max(1, t.of)), meter(k.estimate / Math.max(1, t.keys[0]!.estimate))])))),
    h("div", { class: "two" },
      card("Busiest windows", null, table("Busiest windows", [["Window"], ["Hits", "n"], ["Ends at", "n"]], r.busiest.map((p) => [duration(p.window_s), number(p.hits), moment(p.at)]))),
      card("Up to the newest hit", null, table("Rates up to the newest hit", [["Window"], ["Hits", "n"], ["Per second", "n"]], r.now.map((n) => [duration(n.window_s), number(n.hits), compact(n.per_second)])))),
  ];
}

function limitsPage(r: Limits): (Node | null)[] {
  const rule = (n: { limit: number; per_s: number; burst: number }) => `${number(n.limit)} per ${duration(n.per_s)}${n.burst !== n.limit ? `, burst ${number(n.burst)}` : ""}`;
  return [
    notices(r, [...(r.warnings ?? []), ...(r.approximate ?? [])]),
    h("div", { class: "tiles" },
      tile("Would be denied", number(r.denied), r.requests ? `${percent(r.denied / r.requests)} of ${number(r.requests)} requests` : "", r.denied ? "bad" : "good", true),
      tile("Let through", number(r.allowed)), tile("No policy is for", number(r.unmatched)),
      tile("Span", r.span_s ? duration(r.span_s) : "none", r.first !== undefined && r.last !== undefined ? `${moment(r.first)} to ${moment(r.last)}` : "")),
    r.summary.length ? card("In short", null, h("ul", { class: "short" }, ...r.summary.map((s) => h("li", {}, s)))) : null,
    ...r.limits.flatMap((l) => [
      h("h1", { class: "limit" }, name(l.name), l.enforced ? null : h("span", { class: "pill" }, "shadow")),
      l.timeline.requests.length
        ? chart(`Requests and denials of ${l.name}`, rule(l), plot(l.timeline.start, l.timeline.bucket_s, [{ label: "requests", color: "--accent", counts: l.timeline.requests }, { label: "denied", color: "--denied", counts: l.timeline.denied }]), "requests")
        : null,
      h("div", { class: "two" },
        card("What it would have done", null, h("dl", { class: "facts" }, ...([
          ["Keys", `${l.keys}${l.by ? ` by ${l.by}` : ""}`], ["Requests", number(l.requests)], ["Denied", `${number(l.denied)} (${percent(l.denied_share)})`],
          ["Keys that asked", number(l.distinct_keys)], ["Keys that were denied", number(l.denied_keys)],
          ...(l.worst_minute ? [["Worst minute", `${number(l.worst_minute.denied)}, until ${moment(l.worst_minute.at)}`]] : []),
          ...l.needs.map((n) => [n.denied_share === 0 ? "Would deny nobody" : `Would deny ${percent(n.denied_share)} at most`, `${rule({ ...n, per_s: l.per_s })}${n.or_less ? " or less" : ""}`]),
        ] as [string, string][]).map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, value))))),
        card("Most denied keys", null, l.top.length ? table(`Most denied keys of ${l.name}`, [["Key", "key"], ["Denied", "n"], ["Of its requests", "n"], ["Longest", "n"]],
          l.top.map((k) => [name(k.key), `${k.at_least ? "\u2265 " : ""}${number(k.denied)}`, percent(k.denied_share), duration(k.longest_stretch_s)])) : h("p", { class: "empty" }, "Nobody was denied."))),
    ]),
  ];
}

function filesCard(r: Common): HTMLElement {
  return card("Files", null, table("Files", [["File", "key"], ["Lines", "n"], ["Late", "n"], ["From the future", "n"], ["Malformed", "n"]],
    r.files.map((f) => [name(f.name), number(f.lines), number(f.late), number(f.ahead), number(f.malformed)])),
    r.malformed_lines?.length ? h("details", { class: "values" }, h("summary", {}, "The first malformed lines"),
      table("Malformed lines", [["Where", "key"], ["Why"], ["Text"]], r.malformed_lines.map((m) => [`${m.file}:${m.line}`, m.reason, name(m.text)]))) : null);
}

const data = JSON.parse(document.getElementById("report")!.textContent!) as Data;
const themes = ["auto", "light", "dark"];
const theme = () => kept("weir theme") || "auto";
const page = h("div", { class: "page" });
const themeButton = h("button", { type: "button", class: "plain", click: () => { keep("weir theme", themes[(themes.indexOf(theme()) + 1) % themes.length]!); paint(); } });
const zoneButton = h("button", { type: "button", class: "plain", click: () => { keep("weir zone", zone() === "UTC" ? "" : "UTC"); build(); } });

function paint() {
  attr(document.documentElement, "data-theme", theme() === "auto" ? null : theme());
  text(themeButton, `Theme: ${theme()}`);
  text(zoneButton, `Time: ${zone() === "UTC" ? "UTC" : "local"}`);
  dispatchEvent(new Event("weir theme"));
}

function build() {
  const limits = data.kind === "limits";
  const title = limits ? `What ${(data.report as Limits).policies} would have done` : data.report.files.map((f) => f.name).join(", ");
  draws.length = 0;
  fill(page, h("div", { class: "title" }, h("h1", { tabindex: -1 }, name(title))), ...(limits ? limitsPage(data.report as Limits) : replayPage(data.report as Replay)), filesCard(data.report));
  paint();
  for (const draw of draws) draw();
}

fill(document.body,
  h("header", { class: "bar" }, h("span", { class: "brand" }, mark(), "Weir"), h("span", { class: "quiet" }, data.kind === "limits" ? "Report of limits" : "Report of a log")),
  h("main", { id: "main" }, page),
  h("footer", {}, themeButton, zoneButton, h("span", {}, `Made ${moment(data.made)} by weir ${data.version}, in ${bytes(document.documentElement.outerHTML.length)}`)));
build();
