// A web site whose views count: who is there, what they read, and where they come from; and the list of all sites.

import { bars, Chart, Tile } from "./chart";
import { attr, fill, h, name, text } from "./dom";
import { distinct, moment, range, zone } from "./format";
import { zoomed } from "./key";
import { address, card, copyable, Count, Notices, type Page } from "./parts";
import { link, type Place } from "./place";
import { LiveTable } from "./table";
import type { Bounds, Site } from "./types";

const periods: Record<string, string> = { today: "Today", "7d": "7 days", "30d": "30 days", "365d": "Year" };
const titles: Record<string, [title: string, one: string]> = {
  path: ["Pages", "page"], ref: ["Referrers", "referrer"], browser: ["Browsers", "browser"],
  device: ["Devices", "device"], event: ["Events", "event"], bot: ["Filtered", "reason"],
};

/** titleOf is of a class; others than those above are parameters of campaigns. */
const titleOf = (kind: string) => titles[kind] ?? ["Campaigns", kind.replace(/^query_/, "")];

/** shownNames are how many of a list are shown before more is asked for. */
const shownNames = 10;

interface Entry extends Bounds { key: string; part: number }

/** Top is a list of what a site has most of, with a bar behind each name. */
class Top {
  readonly element: HTMLElement;
  private readonly table: LiveTable<Entry>;
  private readonly more: HTMLElement;
  constructor(site: string, kind: string, private readonly open: boolean, period: string, private readonly all: boolean) {
    const [title, one] = titleOf(kind);
    this.more = h("a", { class: "more", href: link("site", site, { period, more: all ? undefined : kind }), "aria-label": `${all ? "Show fewer" : "Show more"} ${title.toLowerCase()}` }, all ? "Show fewer" : "Show more");
    this.table = new LiveTable<Entry>(title, [{ title: one }, { title: kind === "event" ? "times" : "views", class: "n" }], "None in this period.", (of) => {
      const count = new Count();
      const label = h("th", { scope: "row", class: "key" }, open ? h("span", { title: of.key }, name(of.key)) : h("a", { href: link("key", `${site}:${kind}:${of.key}`), title: of.key }, name(of.key)));
      return {
        element: h("tr", {}, label, h("td", { class: "n" }, count.element)),
        update(of) {
          count.set(of);
          label.style.setProperty("--part", `${of.part}%`);
        },
      };
    });
    this.element = card(kind in titles ? title : [`${title} `, h("span", { class: "unit" }, name(one))], null, this.table.element, this.more);
    this.element.dataset.kind = kind;
  }
  set(names: (Bounds & { key: string })[]) {
    const most = Math.max(1, ...names.map((n) => n.estimate));
    this.more.hidden = names.length <= shownNames || this.open;
    this.table.update((this.all ? names : names.slice(0, shownNames)).map((n) => ({ ...n, part: Math.round((100 * n.estimate) / most) })), (n) => n.key);
  }
}

export function sitePage(place: Place): { page: Page; path: string; params: Record<string, string>; view(of: Site): void } {
  if (!place.name) return sitesPage();
  const site = place.name;
  const period = place.params.get("period") || "today";
  const now = new Tile("Visitors now", true);
  const visitors = new Tile("Visitors");
  const views = new Tile("Views");
  const filtered = new Tile("Filtered");
  const notices = new Notices();
  const chart = new Chart(`Views of ${site}`, (left, right) => { if (!("public" in document.body.dataset)) zoomed(`${site}:visitors`)(left, right); }, 220, "views");
  const said = h("p", { class: "said" });
  const lists = h("div", { class: "two tops" });
  const more = place.params.get("more") ?? "";
  const made = new Map<string, Top>();
  const [from = "", to = from] = period in periods ? [] : period.split("..");
  const day = (label: string, value: string) => h("input", { type: "date", id: label, value, required: true });
  const first = day("from", from);
  const last = day("to", to);
  const custom = h("form", { class: "row days", submit: (e: Event) => { e.preventDefault(); location.hash = link("site", site, { period: `${first.value}..${last.value}` }); } },
    h("label", { for: "from" }, "From"), first, h("label", { for: "to" }, "to"), last, h("button", { type: "submit" }, "Show"));
  const element = h("div", { class: "page" },
    h("div", { class: "title" }, h("h1", { tabindex: -1 }, name(site)),
      h("div", { class: "row" }, h("nav", { class: "tabs", "aria-label": "Period" }, ...Object.entries(periods).map(([of, title]) =>
        h("a", { href: link("site", site, { period: of }), "aria-current": of === period ? "true" : null }, title))), custom)),
    notices.element, h("div", { class: "tiles four" }, now.element, visitors.element, views.element, filtered.element),
    card(chart.titled("Views"), null, chart.element, said), lists);
  return {
    page: { title: site, element, close: () => chart.close() },
    path: "v1/views/site", params: { site, period, tz: zone(), more },
    view(of) {
      attr(document.body, "data-public", of.public ? "" : null);
      custom.hidden = !!of.public;
      element.querySelector<HTMLElement>('[href$="period=365d"]')!.hidden = !!of.public;
      notices.set([], of.late);
      if (of.now) now.set(...distinct(of.now, "in the last 5 minutes"));
      if (of.visitors) visitors.set(...distinct(of.visitors, period === "today" ? "" : "counted anew every day"));
      else visitors.set("\u2013", "not known: longer ago than ids are kept");
      views.setKnown(of.views, range(of.views));
      filtered.setKnown(of.filtered, range(of.filtered) || "by crawlers, prefetched, or too many");
      chart.draw(bars(of.line, of.unit!, "Views", of.to));
      text(said, `${moment(of.from)} to ${moment(of.to)}, ${of.unit}s of ${of.tz}.`);
      for (const { class: kind, names } of of.lists) {
        if (!titles[kind] && !names.length && kind !== "utm_source" && !made.has(kind)) continue;
        let top = made.get(kind);
        if (!top) {
          made.set(kind, (top = new Top(site, kind, !!of.public, period, more === kind)));
          lists.append(top.element);
        }
        top.set(names);
      }
    },
  };
}

/** sitesPage lists the sites, and says how to count one. */
function sitesPage(): { page: Page; path: string; params: Record<string, string>; view(of: Site): void } {
  const list = h("div", { class: "page" });
  const element = h("div", { class: "page" }, h("h1", { tabindex: -1 }, "Sites"), list);
  const snippet = (site: string) => copyable(`<script defer src="${address("w.js")}" data-site="${site}"></script>`);
  const show = (sites: string[]) => fill(list, ...(sites.length
    ? sites.map((site) => card([h("a", { href: link("site", site) }, name(site))], null, h("p", { class: "said" }, "This line in its pages counts their views:"), snippet(site)))
    : [card("No site is counted yet", null, h("p", { class: "said" }, "Start the server with the host of your site:"), copyable("weir serve --web example.com"),
      h("p", { class: "said" }, "and add this line to its pages:"), snippet("example.com"))]));
  return {
    page: { title: "Sites", element, close: () => undefined }, path: "v1/views/site", params: {},
    view: (() => {
      let last = "";
      return (of: Site) => { if (last !== (last = JSON.stringify(of.sites ?? []))) show(of.sites ?? []); };
    })(),
  };
}
