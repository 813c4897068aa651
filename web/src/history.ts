// A key over weeks and months: hours, days or months of the calendar, from history where the server keeps one.

import { get } from "./api";
import { bars, Chart } from "./chart";
import { attr, h, shown, text } from "./dom";
import { moment, number, zone } from "./format";
import { card } from "./parts";
import type { Series } from "./types";

const units = { hour: ["Hours", "-48h"], day: ["Days", "-60d"], month: ["Months", "-730d"] } as const;
type Unit = keyof typeof units;

const sources: Record<string, string> = {
  history: "From the history of this server, which is written some seconds after the hits",
  windows: "From the windows of this server: it keeps no history",
  "history+windows": "From the history of this server, and from its windows where that lacks hits",
};

export class HistoryCard {
  readonly element: HTMLElement;
  private readonly chart: Chart;
  private readonly said = h("p", { class: "said" }, "Asking\u2026");
  private readonly buttons = Object.entries(units).map(([unit, [title]]) => h("button", { type: "button", click: () => this.ask(unit as Unit) }, title));
  private asking = new AbortController();
  private unit: Unit = "day";
  private zone = "";
  private readonly again = () => { if (zone() !== this.zone) this.ask(this.unit); };

  constructor(private readonly key: string) {
    this.chart = new Chart(`History of ${shown(key)}`, undefined, 220);
    this.element = card(this.chart.titled("History"), h("div", { class: "tools", role: "group", "aria-label": "Spans" }, ...this.buttons), this.chart.element, this.said);
    addEventListener("weir theme", this.again); // which the time zone changes by, too
    this.ask("day");
  }

  close() {
    this.asking.abort();
    this.chart.close();
    removeEventListener("weir theme", this.again);
  }

  private ask(unit: Unit) {
    this.asking.abort();
    this.asking = new AbortController();
    [this.unit, this.zone] = [unit, zone()];
    Object.keys(units).forEach((of, i) => attr(this.buttons[i]!, "aria-pressed", String(of === unit)));
    void this.show(unit, this.asking.signal);
  }

  private async show(unit: Unit, signal: AbortSignal) {
    try {
      const of = await get<Series>("v1/series", { key: this.key, align: unit, from: units[unit][1], tz: this.zone }, signal);
      const exact = of.points.every((p) => p.exact);
      const first = of.points.findIndex((p) => p.estimate > 0); // nothing is known of what is before
      this.chart.draw(bars(of.points.slice(first), unit, "Hits", of.as_of));
      const unknown = of.points.slice(first).filter((p) => p.upper === null).length;
      text(this.said, `${sources[of.source ?? ""] ?? of.source}; ${exact ? "exact" : "\u2248 marks estimates"}${unknown ? `; ${unknown === 1 ? `1 ${unit} has` : `${number(unknown)} ${unit}s have`} a least only` : ""}. All hits until ${moment(of.as_of)} are in; ${unit}s of ${this.zone}, of which the last has not ended.`);
    } catch (failure) {
      if (!signal.aborted) text(this.said, (failure as Error).message);
    }
  }
}
