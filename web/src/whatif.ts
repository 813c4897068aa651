// What a limit would have denied of a key, had each hit been a request: a slider over the line that is shown.

import { h, text } from "./dom";
import { duration, number, percent } from "./format";
import type { Line } from "./types";

const periods = [10, 60, 600, 3600, 21600, 86400];

/** denied goes over parts in their order: each lets pass what the limit has left after those within `back` parts before. */
function denied(counts: number[], most: number, back: number): number[] {
  const passed: number[] = [];
  let held = 0;
  return counts.map((n, i) => {
    if (i > back) held -= passed[i - back - 1]!;
    passed.push(Math.min(n, Math.max(0, most - held)));
    held += passed[i]!;
    return n - passed[i]!;
  });
}

const total = (counts: number[]) => counts.reduce((sum, n) => sum + n, 0);

/** WhatIf says what would have been denied, and tells its owner when the reader chooses another limit. */
export class WhatIf {
  readonly element: HTMLElement;
  private readonly slider: HTMLInputElement;
  private readonly exact: HTMLInputElement;
  private readonly period: HTMLSelectElement;
  private readonly said = h("p", { class: "said", role: "status" });
  private line?: Line;

  constructor(limit: number, per: number, private readonly changed: (limit: number, per: number) => void) {
    this.slider = h("input", { type: "range", min: 0, max: 100, value: 0, "aria-label": "Limit", input: () => this.choose(Math.round(this.valueOf(Number(this.slider.value)))) });
    this.exact = h("input", { type: "number", min: 0, step: 1, value: limit > 0 ? limit : "", placeholder: "off", "aria-label": "Limit, as a number", input: () => this.choose(Number(this.exact.value), false) });
    this.period = h("select", { "aria-label": "Period", change: () => this.choose(Number(this.exact.value)) },
      ...periods.map((s) => h("option", { value: s, selected: s === per }, `per ${duration(s)}`)));
    this.element = h("div", { class: "whatif" }, h("div", { class: "row" }, this.slider, this.exact, this.period), this.said);
  }

  get limit() { return Number(this.exact.value) || 0; }
  get per() { return Number(this.period.value); }

  /** The slider is logarithmic: from 1 to the most that a period has. */
  private most() {
    if (!this.line) return 1;
    const k = Math.max(1, Math.round(this.per / this.line.step_s));
    let most = 1;
    for (let i = 0; i < this.line.estimate.length; i++) most = Math.max(most, total(this.line.estimate.slice(Math.max(0, i - k + 1), i + 1)));
    return most * 1.05;
  }
  private valueOf(at: number) { return at <= 0 ? 0 : Math.exp((at / 100) * Math.log(this.most() + 1)); }

  private choose(limit: number, write = true) {
    if (write) this.exact.value = limit > 0 ? String(limit) : "";
    this.changed(this.limit, this.per);
    if (this.line) this.draw(this.line);
  }

  /** draw says what the limit would have denied of a line, and returns it by part; undefined: no limit is chosen. */
  draw(line: Line): number[] | undefined {
    this.line = line;
    this.slider.value = String(this.limit > 0 ? Math.round((Math.log(this.limit) / Math.log(this.most() + 1)) * 100) : 0);
    for (const option of this.period.options) option.disabled = Number(option.value) < line.step_s;
    if (this.limit <= 0) return text(this.said, "Choose a limit to see what it would have denied, had each hit been a request."), undefined;
    if (this.per < line.step_s) return text(this.said, `Hits of this window are known by ${duration(line.step_s)}: choose a longer period, or a shorter window.`), undefined;
    const k = Math.max(1, Math.round(this.per / line.step_s));
    const least = denied(line.estimate, this.limit, k - 1);
    const most = denied(line.estimate, this.limit, k);
    const all = total(line.estimate);
    const [from, to] = [Math.min(total(least), total(most)), Math.max(total(least), total(most))];
    text(this.said, `${number(this.limit)} per ${duration(this.per)} would have denied about ${from === to ? number(from) : `${number(from)} to ${number(to)}`} of ${number(all)} hits (${percent(all ? to / all : 0)} at most). Hits are known by ${duration(line.step_s)}, and those before the line are not looked at; weir limits replay tells it of a log to the second.`);
    return most;
  }
}
