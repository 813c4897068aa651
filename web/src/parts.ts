// Small things that pages share.

import { attr, fill, h, svg, text } from "./dom";
import { clock, count, percent, range } from "./format";
import { link, windows, type Place } from "./place";
import type { Alarm, Bounds, Late } from "./types";

/** A page is what is below the head of the window. */
export interface Page { title: string; element: HTMLElement; close(): void }

/** windowTabs are links to the same place with another window. */
export function windowTabs(place: Place, chosen: string): HTMLElement {
  const others: Record<string, string[]> = {};
  for (const name of place.params.keys()) if (!["window", "from", "to"].includes(name)) others[name] = place.params.getAll(name);
  return h("nav", { class: "tabs", "aria-label": "Window" }, ...windows.map((w) =>
    h("a", { href: link(place.page, place.name, { ...others, window: w }), "aria-current": w === chosen ? "true" : null }, w)));
}

export const spoken: Record<string, string> = { "1m": "1 minute", "5m": "5 minutes", "1h": "1 hour", "1d": "1 day", "1w": "1 week" };

/** Count is a number with what is known of it. */
export class Count {
  private readonly value = h("span", { class: "value" });
  private readonly range = h("span", { class: "range" });
  readonly element = h("span", { class: "count" }, this.value, this.range);
  set(b: Bounds) {
    text(this.value, count(b));
    attr(this.value, "data-zero", b.upper === 0 ? "" : null);
    text(this.range, range(b));
  }
}

/** Change is how a count differs from the one before. */
export class Change {
  readonly element = h("span", { class: "change" });
  set(now: Bounds, before: Bounds) {
    const unknown = before.upper === null || now.upper === null;
    const rises = now.estimate >= before.estimate;
    let said = "";
    if (unknown) said = "";
    else if (before.estimate === 0) said = now.estimate > 0 ? "new" : "";
    else if (now.estimate === before.estimate) said = "=";
    else {
      const apart = now.lower > before.upper! || now.upper! < before.lower;
      const part = Math.abs(now.estimate / before.estimate - 1);
      if (part < 0.005) said = "\u2248 0%";
      else said = part >= 99.5 ? "\u25b2 > 100\u00d7" : `${apart ? "" : "\u2248 "}${rises ? "\u25b2" : "\u25bc"} ${percent(part)}`;
    }
    text(this.element, said);
    attr(this.element, "data-way", said.includes("\u25b2") || said === "new" ? "up" : said.includes("\u25bc") ? "down" : null);
    attr(this.element, "title", unknown ? "the window before is not known whole" : `in the window before: ${count(before)}`);
  }
}

/** looks are commands that show more of an alarm, by its code. Each message says what to do. */
const looks: Record<string, string> = {
  journal_failing: "df -h", journal_full: "df -h", history_full: "df -h", clock_wrong: "timedatectl", clocks_differ: "timedatectl", kept_policies_bad: "weir policies",
  policy_file_bad: "weir limits check policies.yaml", tokens_file_bad: "weir token list", node_late: "weir cluster", replica_missing: "weir cluster", under_replicated: "weir cluster",
};

/** Notices are one banner that says what is wrong, how bad it is, and which command shows more: alarms, and nodes that are late. */
export class Notices {
  readonly element = h("section", { class: "banner", "aria-label": "Alarms", hidden: true });
  private last = "";
  set(alarms: Alarm[] = [], late: Late[] = []) {
    const all = [...alarms.filter((a) => a.refusing), ...late.map((l): Alarm => ({ code: `Without ${l.node}`, message: `its hits are counted here until ${clock(l.since)}: counts are lower bounds until it is back` })), ...alarms.filter((a) => !a.refusing)];
    const now = JSON.stringify(all);
    if (now === this.last) return;
    this.last = now;
    const refusing = alarms.some((a) => a.refusing);
    const commands = new Set([...(late.length ? ["weir cluster"] : []), ...alarms.map((a) => looks[a.code] ?? "weir stats")].map((c) => (c === "weir cluster" || c === "weir stats" ? `${c} --server ${location.host}` : c)));
    attr(this.element, "data-severity", refusing ? "critical" : "warning");
    fill(this.element, h("strong", { class: "severity" }, refusing ? "Critical: this server refuses hits" : late.length ? "Warning: hits may be missing" : "Warning"),
      h("ul", { role: "list" }, ...all.map((a) => h("li", {}, h("strong", {}, a.code), " ", a.message))), ...[...commands].slice(0, 2).map(copyable));
    this.element.hidden = all.length === 0;
  }
}

/** mark is the sign of Weir. */
export const mark = () => svg("svg", { viewBox: "0 0 32 32", class: "mark", "aria-hidden": "true" },
  svg("rect", { width: 32, height: 32, rx: 7 }), svg("path", { d: "M4 12c3 0 3-2 6-2s3 2 6 2", class: "w" }), svg("path", { d: "M18 9v15", class: "b" }), svg("path", { d: "M20 21c2 0 2-2 4-2s2 2 4 2", class: "w" }));

export const card = (title: string | (Node | string)[], ...children: (Node | null)[]) => {
  const [beside, ...below] = children;
  return h("section", { class: "card" }, h("header", {}, h("h2", {}, ...[title].flat()), beside ?? null), ...below);
};

/** address is where a path of this server is. */
export const address = (path: string) => new URL(path, location.href.split("#")[0]).href;

/** copyable is a command with a button that copies it. */
export function copyable(code: string): HTMLElement {
  const button = h("button", { type: "button", click: () => void navigator.clipboard.writeText(code).then(() => text(button, "Copied")) }, "Copy");
  return h("div", { class: "row" }, h("code", { class: "copy" }, code), navigator.clipboard ? button : null);
}
