// The policies: what each let pass and denied, and which keys have used most of one.

import { change } from "./api";
import { Chart, plotOf, Spark, whole } from "./chart";
import { attr, fill, h, name, text } from "./dom";
import { clock, duration, microusd, moment, number, percent } from "./format";
import { zoomed } from "./key";
import { address, card, copyable, Count, Notices, spoken, windowTabs, type Page } from "./parts";
import { link, windowOf, type Place } from "./place";
import { LiveTable } from "./table";
import type { AtOnce, DeniedKey, Limits, Line, LimitKey, Policy, Reserved } from "./types";
import { whyForm } from "./why";

/** sample makes a policy for who has none. */
const sample = `echo 'limits: [{name: login, keys: "login:{user}:*", by: "login:{user}", limit: 5, per: 1m}]' > policies.yaml`;

/** amount writes how many in what a policy counts: requests, tokens, or a millionth of a dollar each. */
const amount = (p: { cost?: string }, n: number) => (p.cost === "microusd" ? microusd(n) : number(n));

/** rule is what a policy lets pass: calendar quotas by their periods. */
const rule = (p: Policy) => `${amount(p, p.limit)}${p.cost && p.cost !== "microusd" ? ` ${p.cost}` : ""} per ${p.calendar ?? duration(p.per_s)}`;

const reserved = (p: { cost?: string }, r: Reserved) => `${amount(p, r.n)} in ${r.reservations === 1 ? "1 open reservation" : `${number(r.reservations)} open reservations`}`;

interface Row { policy: Policy; allowed: number[]; denied: number[]; chosen: boolean }

export function limitsPage(place: Place): { page: Page; path: string; params: Record<string, string>; view(of: Limits): void } {
  const window = windowOf(place, "5m");
  const notices = new Notices();
  const file = h("p", { class: "said" });
  const table = new LiveTable<Row>(`Policies, and their decisions in ${spoken[window]}`, [
    { title: "Policy" }, { title: "Limit" }, { title: "Allowed", class: "n" }, { title: "Denied", class: "n" }, { title: "Share denied", class: "share n" }, { title: "Over time", class: "line", hidden: true },
  ], h("div", {}, h("p", { class: "said" }, "There are no policies. This makes one, which lets each user log in 5 times a minute:"), copyable(sample),
    h("p", { class: "said" }, "Start the server with it, and ask before each login:"), copyable("weir serve --policy policies.yaml"), copyable(`curl -s ${address("v1/allow")} --json '{"key":"login:bob:10.0.0.1"}'`)), (of) => {
    const allowed = new Count();
    const denied = new Count();
    const share = h("span");
    const spark = new Spark("a", "d");
    const anchor = h("a", { href: link("limits", of.policy.name, { window }) }, name(of.policy.name));
    const limit = h("td", { class: "words" });
    return {
      element: h("tr", {}, h("th", { scope: "row", class: "key" }, anchor, h("span", { class: "sub" }, name(of.policy.keys))), limit,
        h("td", { class: "n" }, allowed.element), h("td", { class: "n" }, denied.element), h("td", { class: "share n" }, share), h("td", { class: "line" }, spark.element)),
      update({ policy: p, allowed: passed, denied: stopped, chosen }) {
        const shadow = p.mode === "shadow";
        const not = shadow ? p.shadow_denied : p.denied;
        attr(anchor, "aria-current", chosen ? "true" : null);
        const words = rule(p);
        const open = p.reserved ? reserved(p, p.reserved) : "";
        if (limit.dataset.words !== words + p.mode + open) {
          limit.dataset.words = words + p.mode + open;
          fill(limit, words, shadow && h("span", { class: "pill" }, "shadow"), p.burst !== p.limit && h("span", { class: "sub" }, `burst ${amount(p, p.burst)}`), open && h("span", { class: "sub" }, open));
        }
        attr(denied.element, "class", shadow ? "count shadow" : "count denied");
        allowed.set(p.allowed);
        denied.set(not);
        const all = p.allowed.estimate + p.denied.estimate + p.shadow_denied.estimate;
        const sure = p.allowed.exact && p.denied.exact && p.shadow_denied.exact;
        text(share, all > 0 ? `${sure ? "" : "\u2248 "}${percent(not.estimate / all)}` : "");
        spark.draw(whole(passed), whole(stopped));
      },
    };
  });
  const more = h("p", { class: "said", hidden: true });
  const permits = new LiveTable<AtOnce>("Limits of how many at once", [{ title: "Policy" }, { title: "At once" }, { title: "Held now", class: "n" }, { title: "Keys", class: "n" }], "", (of) => {
    const most = h("td", { class: "words" });
    const held = h("td", { class: "n" });
    const keys = h("td", { class: "n" });
    return {
      element: h("tr", {}, h("th", { scope: "row", class: "key" }, h("a", { href: link("limits", of.name, { window }) }, name(of.name)), h("span", { class: "sub" }, name(of.keys))), most, held, keys),
      update(l) {
        text(most, `${number(l.max)} for each ${l.by ?? "key"}, released after ${duration(l.ttl_s)} of silence`);
        text(held, number(l.held));
        text(keys, number(l.held_keys));
      },
    };
  });
  const permitsCard = card("At once", null, permits.element);
  permitsCard.hidden = true;
  let policy: Policy | undefined;

  const admin = new Admin(place.name);
  const acts = (key: string) => h("td", { class: "n acts" }, h("button", { type: "button", class: "plain", "aria-label": `Change ${key}`, click: () => admin.open(key) }, "\u2026"));
  const chart = new Chart(`Decisions of ${place.name}`, zoomed(`limit:${place.name}:allowed`), 260, "decisions");
  const spent = new Chart(`Spend of keys of ${place.name}`, undefined, 220);
  const spentCard = card(spent.titled("Spend over time"), null, spent.element);
  const facts = h("p", { class: "said" });
  const keys = new LiveTable<LimitKey>(`Keys that have used most of ${place.name}`, [
    { title: "Key" }, { title: "Used", class: "n" }, { title: "Share", class: "part" }, { title: "Reserved", class: "n reserved" }, { title: "Whole again in", class: "n" }, { title: "Change", class: "n acts", hidden: true },
  ], "No key has used anything of this limit.", (of) => {
    const used = h("td", { class: "n" });
    const open = h("td", { class: "n reserved" });
    const meter = h("meter", { min: 0, max: 1, high: 0.99, optimum: 0, "aria-label": "used" });
    const part = h("span");
    const reset = h("td", { class: "n" });
    return {
      element: h("tr", {}, h("th", { scope: "row", class: "key" }, h("a", { href: link("key", of.key) }, name(of.key))), used, h("td", { class: "part" }, meter, " ", part), open, reset, acts(of.key)),
      update(k) {
        text(used, `${amount(policy ?? {}, k.used)} of ${amount(policy ?? {}, k.burst)}`);
        text(open, k.reserved ? reserved(policy ?? {}, k.reserved) : "");
        meter.value = k.share;
        text(part, k.banned_s ? `banned for ${duration(Math.ceil(k.banned_s))}` : k.remaining === 0 ? "denied now" : percent(k.share));
        attr(part, "class", k.banned_s || k.remaining === 0 ? "denied" : null);
        text(reset, duration(Math.ceil(k.reset_s)));
      },
    };
  });
  const denied = new LiveTable<DeniedKey>(`Keys that ${place.name} denied most in the last 5 minutes`, [
    { title: "Key" }, { title: "Denied", class: "n" }, { title: "Last", class: "n" }, { title: "Passes again in", class: "n" }, { title: "Reason", hidden: true }, { title: "Change", class: "n acts", hidden: true },
  ], "This node has denied no key in the last 5 minutes.", (of) => {
    const n = h("td", { class: "n denied" });
    const last = h("td", { class: "n" });
    const wait = h("td", { class: "n" });
    const why = h("a", { "aria-label": `why? ${of.key}` }, "why?");
    return {
      element: h("tr", {}, h("th", { scope: "row", class: "key" }, h("a", { href: link("key", of.key) }, name(of.key))), n, last, wait, h("td", {}, why), acts(of.key)),
      update(k) {
        text(n, number(k.denied));
        text(last, clock(k.last));
        why.hidden = !k.denial;
        attr(why, "href", link("why", k.denial));
        text(wait, k.retry_after_s > 0 ? duration(Math.ceil(k.retry_after_s)) : "now");
      },
    };
  });
  const fullest = card("Fullest keys", null, keys.element);
  const detail = place.name ? [card(chart.titled(place.name), null, facts, chart.element), spentCard, fullest, card("Most denied keys, in 5 minutes", null, denied.element), admin.dialog] : [];
  for (const part of detail) part.hidden = part !== admin.dialog; // until it is known that there is such a policy
  const element = h("div", { class: "page" },
    h("div", { class: "title" }, h("h1", { tabindex: -1 }, "Limits"), whyForm(), windowTabs(place, window)),
    notices.element, card(`Policies, in ${spoken[window]}`, null, table.element, more, file), permitsCard, ...detail);

  return {
    page: { title: place.name ? `Limit ${place.name}` : "Limits", element, close: () => (chart.close(), spent.close()) },
    path: "v1/views/limits", params: { window, name: place.name },
    view(of) {
      notices.set(of.file?.error ? [{ code: "policy file", message: of.file.error }] : [], of.late);
      table.update(of.limits.map((policy, i) => {
        const lines = of.lines[i]!;
        return { policy, allowed: lines.allowed.estimate, denied: (policy.mode === "shadow" ? lines.shadow_denied : lines.denied).estimate, chosen: policy.name === place.name };
      }), (row) => row.policy.name);
      permitsCard.hidden = !of.at_once?.length;
      permits.update(of.at_once ?? [], (l) => l.name);
      more.hidden = !of.more;
      text(more, `${number(of.more ?? 0)} more policies are not shown: weir limits lists them.`);
      text(file, of.file ? `From ${of.file.path}, read ${moment(of.file.loaded_at)}.` : "");
      const at = of.limits.findIndex((p) => p.name === place.name);
      policy = of.limits[at];
      fullest.hidden = false;
      keys.update(of.keys, (k) => k.key);
      if (at < 0) return; // a policy of permits, which has no decisions
      for (const part of detail) part.hidden = false;
      const p = of.limits[at]!;
      const lines = of.lines[at]!;
      spentCard.hidden = !of.spend?.length;
      if (of.spend?.length) {
        spent.counted = p.cost === "microusd" ? "$" : p.cost!;
        const scale = p.cost === "microusd" ? 1e-6 : 1;
        const scaled = (line: Line): Line => ({ ...line, estimate: line.estimate.map((n) => n * scale), lower: line.lower?.map((n) => n * scale), upper: line.upper?.map((n) => n === null ? n : n * scale) });
        const [first, ...others] = of.spend;
        spent.draw(plotOf(scaled(first!.line), first!.key, others.map((o, i) => ({ label: o.key, color: `--other${i}`, line: scaled(o.line) }))));
      }
      text(fullest.querySelector("h2")!, p.cost === "microusd" ? "Spend" : "Fullest keys");
      text(facts, `${rule(p)}${p.by ? ` for each ${p.by}` : ` for each key`}, of keys ${p.keys}; ${p.calendar ? "a calendar quota" : `algorithm ${p.algorithm}`}; decided by ${{ shared: "all nodes together", node: "each node alone", strict: "one node for all", leased: "one node, which grants parts to the others" }[p.where] ?? p.where}${p.version ? `; put by API, version ${number(p.version)}` : ""}${p.overrides ? `; ${number(p.overrides)} keys have another limit` : ""}${p.cost ? `; a request takes its cost ${p.cost}` : ""}${p.count_if ? `; counts requests with ${p.count_if}` : ""}${p.wait_s ? `; it waits for up to ${duration(p.wait_s)} in place of being denied` : ""}${p.deny_for_s ? `; a key that was over is banned for ${duration(p.deny_for_s)}` : ""}.`);
      chart.draw(plotOf(lines.allowed, "allowed", [
        { label: "denied", line: lines.denied, color: "--denied" },
        ...(p.mode === "shadow" ? [{ label: "would be denied", line: lines.shadow_denied, color: "--shadow" }] : []),
      ]));
      denied.update(of.denied_keys ?? [], (k) => k.key);
      attr(element, "data-reserved", of.keys.some((k) => k.reserved) ? "" : null);
      attr(element, "data-admin", of.may_change ? "" : null);
    },
  };
}

/** Admin asks what is to become of a key of a limit: its use forgotten, or more granted. Only who may sees it. */
class Admin {
  private key = "";
  private readonly title = h("h2", {});
  private readonly said = h("p", { class: "said", role: "status" });
  private readonly many = h("input", { id: "grant-n", type: "number", min: 0, step: 1, value: 10, required: true });
  private readonly long = h("select", { id: "grant-for" }, ...[["10m", "10 min"], ["1h", "1 h"], ["24h", "1 d"], ["7d", "1 week"]].map(([value, title]) => h("option", { value }, title!)));
  readonly dialog = h("dialog", { class: "card", "aria-label": "Change a key" }, this.title,
    h("form", { class: "ask", submit: (e: Event) => { e.preventDefault(); void this.ask("POST", "v1/grants", { limit: this.limit, key: this.key, n: this.many.value, for: this.long.value }, `${number(Number(this.many.value))} more may pass.`); } },
      h("label", { for: "grant-n" }, "Let"), this.many, h("label", { for: "grant-for" }, "more pass within"), this.long, h("button", { type: "submit", class: "primary" }, "Grant")),
    h("p", { class: "row" }, this.sure("Forget what it has used", () => this.ask("DELETE", `v1/limits/${encodeURIComponent(this.limit)}/keys/${encodeURIComponent(this.key)}`, {}, "Its whole burst is there again.")),
      this.sure("Ban it for this time", () => this.ask("POST", "v1/bans", { limit: this.limit, key: this.key, for: this.long.value }, "It is denied from now on.")),
      this.sure("Lift its ban", () => this.ask("DELETE", "v1/bans", { limit: this.limit, key: this.key }, "It is not banned."))),
    this.said, h("form", { method: "dialog" }, h("button", { type: "submit" }, "Close")));

  constructor(private readonly limit: string) {}

  /** sure is a button that acts when it is clicked twice. */
  private sure(title: string, act: () => void): HTMLElement {
    const button: HTMLElement = h("button", { type: "button", blur: () => text(button, title), click: () => {
      const again = button.textContent !== title;
      text(button, again ? title : `${title}: sure?`);
      if (again) act();
    } }, title);
    return button;
  }

  open(key: string) {
    this.key = key;
    fill(this.title, name(key), " of ", name(this.limit));
    text(this.said, "");
    this.dialog.showModal();
  }

  private async ask(method: "POST" | "DELETE", path: string, params: Record<string, string>, done: string) {
    try {
      await change(method, path, params);
      text(this.said, done);
    } catch (failure) {
      text(this.said, (failure as Error).message);
    }
  }
}
