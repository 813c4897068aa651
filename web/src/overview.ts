// All keys: how many hits there are now and were before, and which keys have most, by groups or all together.

import { Chart, plotOf, Spark, Tile, whole } from "./chart";
import { h, name, text } from "./dom";
import { compact, count, number, range } from "./format";
import { address, card, Change, copyable, Count, Notices, spoken, windowTabs, type Page } from "./parts";
import { zoomed } from "./key";
import { here, link, windowOf, type Place } from "./place";
import { LiveTable, type Row } from "./table";
import type { KeyView, Overview } from "./types";

const titles: Record<string, string> = { "url:": "Pages", "path:": "Pages", "page:": "Pages", "ref:": "Referrers", "country:": "Countries", "api:": "API", "": "Other keys" };

/** groupOf is how the keys of a group begin, up to the first colon. */
const groupOf = (key: string) => key.slice(0, key.indexOf(":") + 1);

const titleOf = (group: string) => titles[group] ?? (group.includes(".") ? group.slice(0, -1) : group.charAt(0).toUpperCase() + group.slice(1, -1));

/** Scale is what a whole bar stands for. */
interface Scale { most: number }

/** Group is a card of keys that begin alike, with a bar behind each. */
class Group {
  readonly element: HTMLElement;
  private readonly scale: Scale = { most: 1 };
  private readonly table: LiveTable<KeyView>;

  constructor(prefix: string, window: string) {
    this.table = new LiveTable<KeyView>(titleOf(prefix), [{ title: "Key" }, { title: "Over time", class: "line", hidden: true }, { title: "Hits", class: "n" }], "", (of) => {
      const hits = h("td", { class: "n" });
      const spark = new Spark("a");
      const label = h("th", { scope: "row", class: "key" }, h("a", { href: link("key", of.key), title: of.key }, name(of.key.slice(prefix.length) || of.key)));
      return {
        element: h("tr", {}, label, h("td", { class: "line" }, spark.element), hits),
        update: (of) => {
          text(hits, count(of));
          hits.title = range(of);
          label.style.setProperty("--part", `${Math.round((100 * of.estimate) / this.scale.most)}%`);
          spark.draw(whole(of.line));
        },
      };
    });
    const more = prefix ? link("overview", "", { window, prefix }) : link("overview", "", { window, by: "key" });
    this.element = card([name(titleOf(prefix)), " ", titles[prefix] ? h("span", { class: "unit" }, name(prefix)) : ""], h("a", { href: more, "aria-label": `All of ${titleOf(prefix)}` }, "All"), this.table.element);
  }

  set(keys: KeyView[]) {
    this.element.hidden = keys.length === 0;
    this.scale.most = Math.max(1, ...keys.map((k) => k.estimate));
    this.table.update(keys, (k) => k.key);
  }
}

/** keyRow is a row of the table of all keys. */
function keyRow(of: KeyView, scale: Scale): Row<KeyView> {
  const hits = new Count();
  const change = new Change();
  const bar = h("meter", { min: 0, max: 1, value: 0, "aria-hidden": "true" });
  const spark = new Spark("a");
  return {
    element: h("tr", {},
      h("th", { scope: "row", class: "key" }, h("a", { href: link("key", of.key), title: of.key }, name(of.key))),
      h("td", { class: "n" }, hits.element), h("td", { class: "share" }, bar), h("td", { class: "n" }, change.element), h("td", { class: "line" }, spark.element)),
    update(of) {
      hits.set(of);
      change.set(of, of.before);
      bar.value = of.estimate / scale.most;
      spark.draw(whole(of.line));
    },
  };
}

export function overviewPage(place: Place): { page: Page; path: string; params: Record<string, string>; view(of: Overview): void } {
  const window = windowOf(place, "5m");
  const prefix = place.params.get("prefix") ?? "";
  const grouped = !prefix && place.params.get("by") !== "key";
  const many = place.params.get("n") === "100";
  const now = new Tile("Hits per second, now", true);
  const hits = new Tile(`Hits in ${spoken[window]}`);
  const keys = new Tile("Keys");
  const change = new Change();
  const tiles = h("div", { class: "tiles three" }, now.element, hits.element, keys.element);
  const notices = new Notices();
  const chart = new Chart("Hits of all keys", zoomed("*"));
  const chartCard = card(chart.titled("Hits over time"), null, chart.element);
  const scale = { most: 1 };
  const table = new LiveTable<KeyView>(`Keys with most hits in ${spoken[window]}`, [
    { title: "Key" }, { title: "Hits", class: "n" }, { title: "Share", class: "share", hidden: true }, { title: "Change", class: "n" }, { title: "Over time", class: "line", hidden: true },
  ], prefix ? "No key with this prefix was hit in this window." : "No key was hit in this window.", (of) => keyRow(of, scale));
  const more = h("a", { class: "more", href: link("overview", "", { window, prefix, by: grouped ? undefined : "key", n: "100" }), hidden: true }, "Show more");
  const groups = new Map<string, Group>();
  const groupList = h("div", { class: "two tops" });
  const none = h("p", { class: "empty" }, "No key was hit in this window.");

  const filter = h("input", {
    type: "search", "aria-label": "Only keys that begin with", placeholder: "Only keys that begin with", value: prefix, spellcheck: "false", autocapitalize: "off",
    change: (e: Event) => { location.hash = link("overview", "", { window: here().params.get("window") ?? undefined, prefix: (e.target as HTMLInputElement).value }); },
  });
  const by = h("nav", { class: "tabs", "aria-label": "Which keys" },
    h("a", { href: link("overview", "", { window }), "aria-current": grouped ? "true" : null }, "Groups"),
    h("a", { href: link("overview", "", { window, by: "key" }), "aria-current": !grouped && !prefix ? "true" : null }, "All keys"));
  const first = card("Nothing is counted yet", null, h("p", { class: "said" }, "Count the first hit:"), copyable(`curl -s ${address("v1/hits")} -d url:/home`),
    h("p", { class: "said" }, "Views of a web site: ", h("a", { href: link("site") }, "add one line to its pages"), ". Sample traffic, on a second server:"), copyable("weir serve --demo --http 127.0.0.1:8090"));
  first.hidden = true;
  const listed = h("div", { class: "title" }, h("h2", { class: "top" }, `Top keys in ${spoken[window]}`), h("div", { class: "row" }, by, filter));
  const element = h("div", { class: "page" },
    h("div", { class: "title" }, h("h1", { tabindex: -1 }, "Overview"), windowTabs(place, window)),
    notices.element, first, tiles, chartCard, listed, grouped ? h("div", {}, none, groupList) : h("section", { class: "card" }, table.element, more));

  return {
    page: { title: "Overview", element, close: () => chart.close() },
    path: "v1/views/overview", params: { window, prefix, ...(grouped ? { groups: "8", n: "8" } : many ? { n: "100" } : {}) },
    view(of) {
      notices.set(of.alarms, of.late);
      first.hidden = of.all?.keys !== 0;
      tiles.hidden = chartCard.hidden = listed.hidden = of.all?.keys === 0;
      if (!of.all) tiles.hidden = chartCard.hidden = true;
      if (of.all) {
        now.setKnown(of.all.per_second, "", compact);
        change.set(of.all.hits, of.all.before);
        hits.setKnown(of.all.hits, [range(of.all.hits), change.element.textContent && `${change.element.textContent} against the ${spoken[window]} before (${count(of.all.before)})`].filter(Boolean).join("; "));
        keys.set(number(of.all.keys), "in memory, with Weir's own (limit:\u2026)");
        chart.draw(plotOf(of.all.line, "Hits"));
      }
      if (!grouped) {
        scale.most = Math.max(1, ...of.keys.map((k) => k.estimate));
        table.update(of.keys, (k) => k.key);
        more.hidden = many || of.keys.length < 15;
        return;
      }
      none.hidden = of.keys.length > 0 || !first.hidden;
      const found = new Map<string, KeyView[]>();
      for (const key of of.keys) found.set(groupOf(key.key), [...(found.get(groupOf(key.key)) ?? []), key]);
      for (const group of found.keys()) {
        if (groups.has(group)) continue;
        const made = new Group(group, window);
        groups.set(group, made);
        groupList.append(made.element);
      }
      for (const [group, shown] of groups) shown.set(found.get(group) ?? []);
    },
  };
}
