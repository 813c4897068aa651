// The regions that count together: which is late since when, and the links by which they are heard.

import { attr, h, name, text } from "./dom";
import { bytes, clock, duration, moment, number } from "./format";
import { HearingMap, rounded, type Other } from "./map";
import { card } from "./parts";
import { LiveTable } from "./table";
import type { Region, RegionLink, RegionPull, Regions } from "./types";

interface Row { region: Region; of: Regions; link?: RegionLink; pull?: RegionPull }

/** time is of a clock, with its date if that is another day's. */
const time = (at: number, now: number) => (now - at < 72_000 ? clock(at) : moment(at));

/** silent says whether nothing comes of a region: its next digest is overdue. */
export const silent = (r: Region) => !!r.late && r.epoch > 0 && r.heard_s > r.every_s + 3;

function state({ region: r, of }: Row): string {
  if (r.gone) return "forgotten";
  const nodes = (r.late_nodes ?? []).map((n) => `; its node ${n.node} is late since ${time(n.since, of.now)}`).join("");
  if (r.base) return `its whole state is being copied${nodes}`;
  if (!r.late) return `in time${r.keys ? `, shares only keys that begin with ${r.keys.join(" or ")}` : ""}${nodes}`;
  if (r.as_of <= 0) return "late: nothing of it came yet";
  return `${silent(r) ? `not reachable for ${duration(Math.round(r.heard_s))}` : "late"}: its hits since ${time(r.as_of, of.now)} may be missing${nodes}`;
}

function linked({ region: r, of, link }: Row): string {
  if (r.self || r.gone) return "";
  if (!link) return "none: by way of others";
  if (!of.owner) return "another node has it";
  const since = link.for_s > 0 ? ` since ${time(of.now - link.for_s, of.now)}` : "";
  return link.up ? `up${since}` : `down${since}${link.why ? `: ${link.why}` : ""}`;
}

/** bytesOf is how much comes from a region over its link, and goes to it. */
function bytesOf({ of, link, pull }: Row): string {
  return [link?.up && of.owner && `${bytes(link.bytes_per_s)}/s in`, pull?.now && `${bytes(pull.bytes_per_s)}/s out${pull.behind ? `, ${number(pull.behind)} messages behind` : ""}`].filter(Boolean).join(", ");
}

function onMap(row: Row): Other {
  const { region: r, of, link } = row;
  const line = !link || !of.owner || r.gone ? "none" : link.up ? "up" : "down";
  return {
    name: r.region, state: r.gone ? "left" : r.late ? "late" : "heard", line, note: line === "down" ? "link down" : silent(r) ? "not reachable" : r.late ? "late" : rounded(r.lag_s),
    words: [state(row), linked(row) && `link ${linked(row)}`].filter(Boolean).join(", "),
  };
}

/** RegionCards, a map and a table, are there where the server counts for a region. */
export class RegionCards {
  private readonly drawn = new HearingMap();
  private readonly said = h("p", { class: "said" });
  private readonly table = new LiveTable<Row>("Regions", [
    { title: "Region" }, { title: "State" }, { title: "Counted up to", class: "n" }, { title: "Lag", class: "n" }, { title: "Last message", class: "n" }, { title: "Link" }, { title: "Traffic", class: "n" },
  ], "No region is known.", ({ region }) => {
    const is = h("td");
    const asOf = h("td", { class: "n" });
    const lag = h("td", { class: "n" });
    const heard = h("td", { class: "n" });
    const link = h("td");
    const traffic = h("td", { class: "n" });
    return {
      element: h("tr", {}, h("th", { scope: "row" }, name(region.region), region.self && h("span", { class: "sub" }, "this one")), is, asOf, lag, heard, link, traffic),
      update(row) {
        const { region: r, of } = row;
        const known = r.epoch > 0 && !r.gone;
        text(is, state(row));
        attr(is, "class", r.gone ? "quiet" : r.late || r.late_nodes?.length ? "denied" : "good");
        text(asOf, r.as_of > 0 && !r.gone ? time(r.as_of, of.now) : "");
        text(lag, known && !r.self ? duration(r.late ? Math.round(r.lag_s + r.heard_s) : Math.round(r.lag_s * 1000) / 1000) : "");
        text(heard, known && !r.self ? time(of.now - r.heard_s, of.now) : "");
        text(link, linked(row));
        text(traffic, bytesOf(row));
        attr(link, "class", row.link && of.owner && !row.link.up && !r.gone ? "denied" : null);
      },
    };
  });
  readonly map = card("Which regions are heard", null, this.drawn.element, this.said);
  readonly list = card("Regions", null, this.table.element);

  constructor() { this.set(); }

  set(of?: Regions) {
    this.map.hidden = this.list.hidden = !of;
    if (!of) return;
    const rows = of.regions.map((region) => ({ region, of, link: of.links.find((l) => l.region === region.region), pull: of.pulls.find((p) => p.region === region.region) }));
    this.drawn.set(of.region, rows.filter((row) => !row.region.self).map(onMap));
    this.table.update(rows, (row) => row.region.region);
    text(this.said, `${of.owner ? "A solid line is a link that is up, with the region's lag. A broken line is a link that is down. A pale line is a region without a link: its hits arrive through others." : "Another node of this region has the links, and knows how they do."} `
      + `${of.feeds === 1 ? "1 other region pulls" : `${number(of.feeds)} other regions pull`} from this node now. The table says the same in words.`);
  }
}
