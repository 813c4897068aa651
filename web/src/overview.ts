// All keys: how many hits there are now and were before, and which keys have most.

import { Chart, plotOf, Spark, Tile, whole } from "./chart";
import { h, name } from "./dom";
import { compact, count, number, range } from "./format";
import { address, card, Change, copyable, Count, Notices, spoken, windowTabs, type Page } from "./parts";
import { here, link, windowOf, type Place } from "./place";
import { LiveTable } from "./table";
import type { KeyView, Overview } from "./types";

export function overviewPage(place: Place): { page: Page; path: string; params: Record<string, string>; view(of: Overview): void } {
  const window = windowOf(place, "5m");
  const prefix = place.params.get("prefix") ?? "";
  const now = new Tile("Hits per second, now", true);
  const hits = new Tile(`Hits in ${spoken[window]}`);
  const keys = new Tile("Keys");
  const change = new Change();
  const tiles = h("div", { class: "tiles" }, now.element, hits.element, keys.element);
  const notices = new Notices();
  const chart = new Chart("Hits of all keys");
  const chartCard = card(chart.titled("Hits over time"), null, chart.element);
  const scale = { most: 1 };

  const table = new LiveTable<KeyView>(`Keys with most hits in ${spoken[window]}`, [
    { title: "Key" }, { title: "Hits", class: "n" }, { title: "Share", class: "share", hidden: true }, { title: "Change", class: "n" }, { title: "Over time", class: "line", hidden: true },
  ], prefix ? "No key with this prefix was hit in this window." : "No key was hit in this window.", (of) => {
    const hits = new Count();
    const change = new Change();
    const bar = h("meter", { min: 0, max: 1, value: 0, "aria-hidden": "true" });
    const spark = new Spark("a");
    const element = h("tr", {},
      h("th", { scope: "row", class: "key" }, h("a", { href: link("key", of.key), title: of.key }, name(of.key))),
      h("td", { class: "n" }, hits.element), h("td", { class: "share" }, bar), h("td", { class: "n" }, change.element), h("td", { class: "line" }, spark.element));
    return {
      element,
      update(of) {
        hits.set(of);
        change.set(of, of.before);
        bar.value = of.estimate / scale.most;
        spark.draw(whole(of.line));
      },
    };
  });

  const filter = h("input", {
    type: "search", "aria-label": "Only keys that begin with", placeholder: "Only keys that begin with", value: prefix, spellcheck: "false", autocapitalize: "off",
    change: (e: Event) => { location.hash = link("overview", "", { window: here().params.get("window") ?? undefined, prefix: (e.target as HTMLInputElement).value }); },
  });
  const first = card("Nothing is counted yet", null, h("p", { class: "said" }, "Count the first hit:"), copyable(`curl -s ${address("v1/hits")} -d url:/home`),
    h("p", { class: "said" }, "Sample traffic, on a second server:"), copyable("weir serve --demo --http 127.0.0.1:8090"));
  first.hidden = true;
  const element = h("div", { class: "page" },
    h("div", { class: "title" }, h("h1", { tabindex: -1 }, "Overview"), windowTabs(place, window)),
    notices.element, first, tiles, chartCard, card(`Top keys in ${spoken[window]}`, filter, table.element));

  return {
    page: { title: "Overview", element, close: () => chart.close() },
    path: "v1/views/overview", params: { window, prefix },
    view(of) {
      notices.set(of.alarms, of.late);
      first.hidden = of.all?.keys !== 0;
      tiles.hidden = chartCard.hidden = !of.all;
      if (of.all) {
        now.setKnown(of.all.per_second, "", compact);
        change.set(of.all.hits, of.all.before);
        hits.setKnown(of.all.hits, [range(of.all.hits), change.element.textContent && `${change.element.textContent} against the ${spoken[window]} before (${count(of.all.before)})`].filter(Boolean).join("; "));
        keys.set(number(of.all.keys), "in memory, with Weir's own (limit:\u2026)");
        chart.draw(plotOf(of.all.line, "Hits"));
      }
      scale.most = Math.max(1, ...of.keys.map((k) => k.estimate));
      table.update(of.keys, (k) => k.key);
    },
  };
}
