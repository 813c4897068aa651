// The live log: hits and denials as they come, of many a sample.

import { attr, h, name, text } from "./dom";
import { clock, duration, moment, number } from "./format";
import { address, card, copyable, type Page } from "./parts";
import { link, type Place } from "./place";
import { LiveTable } from "./table";
import type { Log, LogEvent } from "./types";

const kinds = [["", "Hits and denials"], ["hit", "Hits"], ["denial", "Denials"]] as const;

export function logPage(place: Place): { page: Page; path: string; params: Record<string, string>; view(of: Log): void } {
  const prefix = place.params.get("prefix") ?? "";
  const kind = place.params.get("kind") ?? "";
  let last: Log | undefined;
  let frozen = false;
  const table = new LiveTable<LogEvent>("Hits and denials, the newest first", [
    { title: "Time" }, { title: "What" }, { title: "Key" }, { title: "How many", class: "n" },
  ], h("div", {}, h("p", { class: "said" }, "Nothing yet: what comes from now on is shown. Send a hit:"), copyable(`curl -s ${address("v1/hits")} -d url:/home`)), (of) => {
    const denied = of.kind === "denial";
    return {
      element: h("tr", {}, h("td", { class: "words" }, h("time", { title: moment(of.at) }, clock(of.at)), of.of !== undefined && h("span", { class: "sub" }, `of ${moment(of.of)}`)),
        h("td", { class: "words" }, denied ? h("span", { class: "denied" }, "denied by ", h("a", { href: link("limits", of.limit) }, name(of.limit!))) : "hit",
          of.denial && h("span", { class: "sub" }, h("a", { href: link("why", of.denial) }, "why?"))),
        h("th", { scope: "row", class: "key" }, h("a", { href: link("key", of.key) }, name(of.key))), h("td", { class: "n" }, number(of.n))),
      update() { /* what has come does not change */ },
    };
  });
  const said = h("p", { class: "said" });
  const share = (what: string, of: Log["hits"]) => (of.one_in === 1 ? `all ${what}` : `1 in ${number(of.one_in)} ${what}`);
  const say = (of: Log) => {
    if (!of.events.length && of.at - of.since < 0.5) return "New hits and denials appear here, at most 10 of each per second, chosen at random.";
    const span = duration(Math.max(1, Math.round(of.at - of.since)));
    return `Of the last ${span}${of.node ? ` at node ${of.node}` : ""}: ${share("hits", of.hits)} and ${share("denials", of.denials)}. At most 10 of each per second are shown, chosen at random.`;
  };
  const show = () => {
    if (!last) return;
    table.update(last.events.filter((e) => !kind || e.kind === kind), (e) => e.kind + e.number);
    text(said, say(last));
  };
  const freeze = h("button", {
    type: "button", "aria-pressed": "false", click: () => {
      frozen = !frozen;
      attr(freeze, "aria-pressed", String(frozen));
      if (!frozen) show();
      else if (last) text(said, `Frozen at ${clock(last.at)}. ${say(last)}`);
    },
  }, "Freeze");
  const filter = h("input", {
    type: "search", "aria-label": "Only keys that begin with", placeholder: "Only keys that begin with", value: prefix, spellcheck: "false", autocapitalize: "off", maxlength: 512,
    change: () => { location.hash = link("log", "", { kind, prefix: filter.value }); },
  });
  const tabs = h("nav", { class: "tabs", "aria-label": "What is shown" }, ...kinds.map(([of, title]) =>
    h("a", { href: link("log", "", { kind: of, prefix }), "aria-current": of === kind ? "true" : null }, title)));
  const element = h("div", { class: "page" },
    h("div", { class: "title" }, h("h1", { tabindex: -1 }, "Live log"), tabs),
    card("As they come", h("div", { class: "row" }, filter, freeze), said, table.element));
  return {
    page: { title: "Live log", element, close: () => undefined },
    path: "v1/views/log", params: { prefix },
    view(of) {
      if (frozen) return;
      if (last && table.held()) return text(said, `Rests while you are in the rows, at ${clock(last.at)}. ${say(last)}`);
      last = of;
      show();
    },
  };
}
