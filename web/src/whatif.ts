// What a limit would have denied, had each hit been a request: a slider, which the server answers.

import { get } from "./api";
import { h, text } from "./dom";
import { clock, count, duration, number, percent, range } from "./format";
import type { WhatIfView } from "./types";

const invitation = "Choose a limit to see what it would have denied, had each hit been a request.";
const periods = [1, 10, 60, 600, 3600, 21600, 86400];

/** WhatIf asks about a key or a policy, and tells its owner what was answered; undefined: the reader has chosen no limit. */
export class WhatIf {
  readonly element: HTMLElement;
  private readonly slider: HTMLInputElement;
  private readonly exact: HTMLInputElement;
  private readonly period: HTMLSelectElement;
  private readonly said = h("p", { class: "said", role: "status" });
  private asking = new AbortController();
  private peak = 1000;

  constructor(private readonly about: { key: string } | { policy: string }, private readonly window: string, limit: number, per: number, private readonly answered: (of?: WhatIfView) => void) {
    this.slider = h("input", { type: "range", min: 0, max: 100, value: 0, "aria-label": "Limit", input: () => { this.exact.value = String(this.valueOf(Number(this.slider.value)) || ""); this.ask(); } });
    this.exact = h("input", { type: "number", min: 0, step: 1, value: limit > 0 ? limit : "", placeholder: "off", "aria-label": "Limit, as a number", input: () => this.ask() });
    this.period = h("select", { "aria-label": "Period", change: () => this.ask() },
      ...[...new Set([...periods, per])].sort((a, b) => a - b).map((s) => h("option", { value: s, selected: s === per }, `per ${duration(s)}`)));
    this.element = h("div", { class: "whatif" }, h("div", { class: "row" }, this.slider, this.exact, this.period), this.said);
    if (limit > 0) void this.show(this.asking.signal);
    else text(this.said, invitation);
  }

  close() { this.asking.abort(); }
  get limit() { return Math.max(0, Math.floor(Number(this.exact.value)) || 0); }
  get per() { return Number(this.period.value); }

  /** The slider is logarithmic: from 1 to the most that a period has. */
  private valueOf(at: number) { return at <= 0 ? 0 : Math.round(Math.exp((at / 100) * Math.log(this.peak * 1.05 + 1))); }
  private place() { this.slider.value = String(this.limit > 0 ? Math.round((Math.log(this.limit) / Math.log(this.peak * 1.05 + 1)) * 100) : 0); }

  private ask() {
    this.asking.abort();
    this.asking = new AbortController();
    if (this.limit > 0) return void this.show(this.asking.signal);
    this.place();
    text(this.said, invitation);
    this.answered();
  }

  private async show(signal: AbortSignal) {
    try {
      const of = await get<WhatIfView>("v1/views/what-if", { ...this.about, limit: this.limit, per: `${this.per}s`, window: this.window }, signal);
      this.peak = Math.max(of.peak, 1);
      if (document.activeElement !== this.slider) this.place(); // nobody drags it
      text(this.said, this.words(of));
      this.answered(of);
    } catch (failure) {
      if (!signal.aborted) text(this.said, (failure as Error).message);
    }
  }

  private words(of: WhatIfView): string {
    const whose = "key" in this.about ? "" : of.keys === 1 ? " of one key" : ` of ${number(of.keys)} keys${of.more ? ", those with most hits" : ""}`;
    if ("policy" in this.about && of.keys === 0) {
      return "Nothing to decide: no key that this policy is for has hits here in that time. Decisions are counted for all keys together, and what is counted by key are hits: count the requests too, or try the limit on a log with weir limits replay.";
    }
    const bounds = of.denied.exact ? "" : ` (${range(of.denied)})`;
    return `${number(of.limit)} per ${duration(of.per_s)} would have denied about ${number(of.denied.estimate)}${bounds} of ${count(of.hits)} hits${whose} in the ${duration(of.window_s)} before ${clock(of.at)}: ${percent(of.hits.estimate ? of.denied.estimate / of.hits.estimate : 0)}. `
      + `Decided by the engine of weir limits replay on what counters know: the newest 8 minutes by the second, what is older by up to ${duration(of.coarsest_s)}, hence the range. The limit begins idle, and each hit is taken for a request: decisions are not counted by key.`;
  }
}
