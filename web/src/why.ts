// Why a request was denied, by the ID that it was told.

import { get } from "./api";
import { fill, h, name, text } from "./dom";
import { duration, moment, number } from "./format";
import { card, type Page } from "./parts";
import { link, type Place } from "./place";
import type { Denial } from "./types";

/** whyForm asks for an ID. */
export const whyForm = () => {
  const input = h("input", { type: "search", "aria-label": "ID of a denial", placeholder: "ID of a denial (Weir-Denial)", spellcheck: "false", autocapitalize: "off" });
  return h("form", { class: "ask", submit: (e: Event) => { e.preventDefault(); if (input.value.trim()) location.hash = link("why", input.value.trim()); } }, input, h("button", { type: "submit" }, "Why?"));
};

export function whyPage(place: Place): { page: Page; path: string; params: Record<string, string>; view(of: never): void } {
  const asking = new AbortController();
  const said = h("p", { class: "said", role: "status" }, "Asking\u2026");
  const found = h("div", { class: "page" });
  const element = h("div", { class: "page" }, h("div", { class: "title" }, h("h1", { tabindex: -1, class: "key" }, "Denial ", name(place.name)), whyForm()), said, found);
  void (async () => {
    try {
      const denial = await get<Denial>(`v1/denials/${encodeURIComponent(place.name)}`, {}, asking.signal);
      const when = denial.times === 1 ? moment(denial.at) : `${number(denial.times)} times, first ${moment(denial.at)}, last ${moment(denial.last)}`;
      text(said, `Denied ${when}${denial.node ? ` by node ${denial.node}` : ""}${denial.more ? `, and by ${number(denial.more)} limits more` : ""}.${denial.freshness.late?.length ? ` Unreachable then: ${denial.freshness.late.join(", ")}.` : ""}`);
      fill(found, ...denial.limits.map(limitCard));
    } catch (failure) {
      if (!asking.signal.aborted) text(said, (failure as Error).message);
    }
  })();
  return { page: { title: `Denial ${place.name}`, element, close: () => asking.abort() }, path: "", params: {}, view: () => undefined };
}

const rule = (of: { limit: number; per_s: number; burst: number }) => `${number(of.limit)} per ${duration(of.per_s)}${of.burst !== of.limit ? `, burst ${number(of.burst)}` : ""}`;

/** why is what said no: a ban, or the whole limit. */
function why(l: Denial["limits"][number]): [string, string][] {
  if (l.banned && l.retry_at !== undefined) return [["Banned until", `${moment(l.retry_at)}, whatever it has used`]];
  if (l.no_part) return [["No part", "the region that was asked has none of this limit"]];
  return [
    ["Used then", `${number(l.used)} of ${number(l.burst)}`],
    ["Would have passed", l.retry_at === undefined ? "never: it is more than the burst" : moment(l.retry_at)], ["Whole again", moment(l.reset_at)],
  ];
}

function limitCard(l: Denial["limits"][number]): HTMLElement {
  const facts: [string, Node | string][] = [
    ["Limit", `${rule(l)}, ${l.algorithm}${l.changed ? " (the policy is another one now)" : ""}`],
    ["The request's key", h("a", { href: link("key", l.asked) }, name(l.asked))], ["Counted key", name(l.key)],
    ["Asked for", number(l.n)], ...why(l),
    ...(l.away ? [["The node that decides was away", l.away] as [string, string]] : []),
  ];
  return card([l.inline ? name(l.name) : h("a", { href: link("limits", l.name) }, name(l.name))], null,
    h("dl", { class: "facts" }, ...facts.map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, value)))),
    !l.banned && !l.no_part && l.admissions.length ? h("details", { class: "values" }, h("summary", {}, "What filled it"),
      h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Admissions" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Admitted"), h("th", { scope: "col", class: "n" }, "How many"))),
        h("tbody", {}, ...l.admissions.map((a) => h("tr", {}, h("td", {}, moment(a.at)), h("td", { class: "n" }, number(a.n)))))),
        l.doubt_s ? h("p", { class: "said" }, `Each may have been up to ${duration(l.doubt_s)} earlier.`) : null)) : null);
}
