// What each region has counted of a key.

import { h, name, text } from "./dom";
import { clock } from "./format";
import { card, Count, spoken } from "./parts";
import { LiveTable } from "./table";
import type { KeyRegion } from "./types";

/** RegionParts is a card that is there where the server counts for a region. */
export class RegionParts {
  private readonly table = new LiveTable<KeyRegion>("Hits of each region", [{ title: "Region" }, ...Object.values(spoken).map((title) => ({ title, class: "n" })), { title: "Up to", class: "n" }], "No region is known.", (of) => {
    const counts = Object.keys(spoken).map(() => new Count());
    const asOf = h("td", { class: "n" });
    return {
      element: h("tr", {}, h("th", { scope: "row", class: "key" }, name(of.region)), ...counts.map((c) => h("td", { class: "n" }, c.element)), asOf),
      update(r) {
        r.counts.forEach((b, i) => counts[i]?.set(b));
        text(asOf, r.as_of > 0 ? clock(r.as_of) + (r.late?.length ? ", late" : "") : "no data yet");
      },
    };
  });
  readonly element = card("By region", null, this.table.element);

  constructor() { this.element.hidden = true; }

  set(regions: KeyRegion[] = []) {
    this.element.hidden = regions.length === 0;
    this.table.update(regions, (r) => r.region);
  }
}
