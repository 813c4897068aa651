// The nodes that count together, their journal, what this one holds, and the regions.

import { Tile } from "./chart";
import { attr, fill, h, text } from "./dom";
import { bytes, clock, duration, number, percent } from "./format";
import { HearingMap, rounded } from "./map";
import { card, copyable, Notices, type Page } from "./parts";
import { LiveTable } from "./table";
import type { Place } from "./place";
import { RegionCards, silent } from "./regionmap";
import type { ClusterNode, Nodes } from "./types";

/** stateOf says how a node is, at a time of the server's clock. */
function stateOf(n: ClusterNode, at: number): string {
  if (n.left) return "has left";
  if (!n.late) return "in time";
  const missing = `hits since ${clock(n.as_of)} may be missing`;
  if (n.why === "silent") return `not reachable for ${duration(Math.max(1, Math.round(at - n.heard)))}: ${missing}`;
  return `late, ${n.why === "behind" ? "this node does not apply its hits in time" : "its hits do not reach the journal"}: ${missing}`;
}

const modes: Record<string, string> = { ephemeral: "alone, in memory", alone: "alone, with a journal", cluster: "cluster", nats: "cluster on an existing NATS" };

export function nodesPage(_: Place): { page: Page; path: string; params: Record<string, string>; view(of: Nodes): void } {
  const notices = new Notices();
  const mode = new Tile("This server");
  const size = new Tile("Nodes");
  const health = new Tile("Health");
  const memory = new Tile("Memory of counters");
  const nodes = new LiveTable<{ node: ClusterNode; at: number }>("Nodes", [
    { title: "Node" }, { title: "State" }, { title: "Lag", class: "n" }, { title: "Last message", class: "n" }, { title: "Clock ahead", class: "n" }, { title: "Partitions", class: "n" },
  ], h("div", {}, h("p", { class: "said" }, "This is a single node. Three like this, each with its own name and address, are a cluster:"),
    copyable("weir serve --cluster prod --node a --cluster-addr 10.0.0.1:7000 --peers 10.0.0.1:7000,10.0.0.2:7000,10.0.0.3:7000 --cluster-tls tls --cluster-secret-file secret")), ({ node: of }) => {
    const state = h("td");
    const lag = h("td", { class: "n" });
    const heard = h("td", { class: "n" });
    const skew = h("td", { class: "n" });
    const held = h("td", { class: "n" });
    return {
      element: h("tr", {}, h("th", { scope: "row", class: "key" }, of.node, of.self && h("span", { class: "sub" }, "this one")), state, lag, heard, skew, held),
      update({ node: n, at }) {
        text(state, stateOf(n, at));
        attr(state, "class", n.late ? "denied" : n.left ? "quiet" : "good");
        text(lag, n.self || n.left ? "" : duration(Math.round(n.lag_s * 10) / 10));
        text(heard, n.self || n.left ? "" : clock(n.heard));
        text(skew, n.skew_s === undefined ? "" : `${duration(Math.round(n.skew_s * 1e4) / 1e4)} \u00b1 ${duration(Math.round((n.skew_error_s ?? 0) * 1e4) / 1e4)}`);
        text(held, number(n.held));
      },
    };
  });
  const map = new HearingMap();
  const regions = new RegionCards();
  const mapCard = card("Connections of this node", null, map.element, h("p", { class: "said" }, "A solid line is a reachable node, with the round-trip time. A broken line is a node that is unreachable or late. The table says the same in words."));
  const maps = h("div", { class: "two" }, mapCard, regions.map);
  const facts = () => {
    const list = h("dl", { class: "facts" });
    const values = new Map<string, HTMLElement>();
    const set = (title: string, value: string | undefined) => {
      let at = values.get(title);
      if (value === undefined) return at?.parentElement?.remove(), void values.delete(title);
      if (!at) {
        values.set(title, (at = h("dd")));
        list.append(h("div", {}, h("dt", {}, title), at));
      }
      text(at, value);
    };
    return { list, set };
  };
  const journal = facts();
  const held = facts();
  const problems = h("ul", { class: "said" });
  const nodesCard = card("Nodes", null, nodes.element, problems);
  const journalCard = card("Journal", null, journal.list);
  const element = h("div", { class: "page" },
    h("div", { class: "title" }, h("h1", { tabindex: -1 }, "Cluster")), notices.element,
    h("div", { class: "tiles four" }, health.element, mode.element, size.element, memory.element),
    nodesCard, regions.list, maps, h("div", { class: "two" }, journalCard, card("This node", null, held.list)));

  return {
    page: { title: "Cluster", element, close: () => undefined },
    path: "v1/views/nodes", params: {},
    view({ cluster: c, stats: s, regions: r }) {
      notices.set(c.alarms, c.late);
      const away = c.nodes.filter((n) => n.late && n.why === "silent").length + (r?.regions ?? []).filter(silent).length;
      const late = [...c.nodes, ...(r?.regions ?? [])].filter((n) => n.late).length - away;
      const wrong = [away && `${number(away)} not reachable`, late && `${number(late)} late`].filter(Boolean).join(", ") || (c.alarms.length ? `${number(c.alarms.length)} ${c.alarms.length === 1 ? "alarm" : "alarms"}` : "");
      health.set(wrong || "No alarms", "", wrong ? "bad" : "good");
      const alone = r && c.nodes.length === 0;
      mode.set(c.node ?? (r ? r.region : "weir"), alone ? `a region of one node, ${c.mode === "ephemeral" ? "in memory" : "with a journal"}` : modes[c.mode] ?? c.mode);
      size.set(number(Math.max(1, c.nodes.filter((n) => !n.left).length)), c.leader ? `JetStream's leader is ${c.leader}` : alone ? "of this region" : "");
      nodesCard.hidden = !!alone && c.problems.length === 0;
      memory.set(bytes(s.memory_bytes), `${percent(s.memory_bytes / Math.max(1, s.memory_budget_bytes))} of ${bytes(s.memory_budget_bytes)}`);
      nodes.update(c.nodes.map((node) => ({ node, at: c.now })), (n) => n.node.node);
      mapCard.hidden = c.nodes.length < 2;
      maps.hidden = mapCard.hidden && !r;
      if (!mapCard.hidden) map.set(c.nodes.find((n) => n.self)?.node ?? c.node ?? "", c.nodes.filter((n) => !n.self).map((n) => ({
        name: n.node, state: n.left ? "left" : n.late ? "late" : "heard", line: n.left ? "none" : n.late ? "down" : "up",
        note: n.late ? (n.why === "silent" ? "not reachable" : n.why ?? "") : rounded(c.routes.find((route) => route.node === n.node)?.rtt_s ?? 0),
        words: n.left ? "has left" : !n.late ? "heard" : n.why === "silent" ? "not reachable" : `late, ${n.why}`,
      })));
      regions.set(r);
      const shown = JSON.stringify(c.problems);
      if (problems.dataset.shown !== shown) {
        problems.dataset.shown = shown;
        fill(problems, ...c.problems.map((p) => h("li", {}, p)));
      }
      journalCard.hidden = !c.journal && !s.journal;
      journal.set("Messages kept", c.journal && number(Math.max(0, c.journal.last - c.journal.first + (c.journal.last ? 1 : 0))));
      journal.set("Size", c.journal && bytes(c.journal.bytes));
      journal.set("Flushes on disk", s.journal && number(s.journal.flushes));
      journal.set("The last flush took", s.journal && duration(s.journal.flush_s));
      journal.set("Failed attempts", s.journal && number(s.journal.failures));
      journal.set("Rounds of snapshots", s.journal && number(s.journal.snapshot_rounds));
      journal.set("Hits that wait for the disk", s.journal && number(s.waiting));
      journal.set("Holes", c.journal && number(c.journal.holes));
      journal.set("Repaired flushes", c.journal && number(c.journal.repaired));
      journal.set("Snapshots by", c.snapshots_by);
      held.set("Version", s.version);
      held.set("Runs for", duration(s.uptime_s < 120 ? s.uptime_s : Math.round(s.uptime_s / 60) * 60));
      held.set("Hits", number(s.hits));
      held.set("Keys in memory, with Weir's own (limit:\u2026)", number(s.keys));
      held.set("Late hits, counted", number(s.late));
      held.set("Too late, not counted", number(s.too_late));
      held.set("Too far ahead, refused", number(s.too_far_ahead));
      held.set("Keys evicted", number(s.evicted_keys));
      held.set("Keys expired", number(s.expired_keys));
      held.set("Limits in use", `${number(s.limit_states)}, ${bytes(s.limit_bytes)}`);
      held.set("Partitions", `${number(c.partitions)}${c.replicas ? `, each on ${number(c.replicas)} nodes` : ""}`);
    },
  };
}
