// Lines over time, drawn by uPlot, with a band where a number is not exact; and the small ones of tables.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { attr, fill, h, svg, text } from "./dom";
import { compact, marked, moment, number, span, tick, unitOf, zone } from "./format";
import type { Known, Line, Series } from "./types";

/** A Trace is a line: with lower and upper, where its values are not exact; guessed, where nobody says what is known of them. */
export interface Trace { label: string; color: string; values: (number | null)[]; lower?: (number | null)[]; upper?: (number | null)[]; guessed?: boolean; dashed?: boolean; area?: boolean; /** in place of the last value: of a part that has not ended, dashed */ open?: number }
/** A Plot has a band from lower to upper of its first line. */
export interface Plot { x: number[]; traces: Trace[]; /** that values are per: s, min, h or d. */ unit: string; span: number; bars?: boolean }

/** valueAt writes a value of a line with what is known of it. */
function valueAt(of: Trace | undefined, at: number): string {
  const value = of?.values[at];
  if (of?.open !== undefined && at === of.values.length - 1) return `${compact(of.open)} so far`;
  if (value === null || value === undefined) return "";
  if (of!.guessed) return `\u2248 ${compact(value)}`;
  return of!.lower ? marked({ lower: of!.lower[at] ?? 0, estimate: value, upper: of!.upper?.[at] ?? null }, compact) : compact(value);
}

/** newest is where the last value is that is known. */
const newest = (values: ArrayLike<number | null | undefined>) => {
  let i = values.length - 1;
  while (i > 0 && (values[i] === null || values[i] === undefined)) i--;
  return i;
};

const style = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const faint = (color: string, part: number) => `color-mix(in srgb, ${color} ${part}%, transparent)`;

/** parts are the middles of the parts of a line, and what makes a count of each a rate per second. A last part that has not
 * ended is open and reaches up to now; one that has only begun says little, and is left out. */
function parts(line: Line): { x: number[]; perSecond: number[]; open: boolean } {
  const x: number[] = [];
  const perSecond: number[] = [];
  let open = false;
  for (let i = 0; i < line.estimate.length; i++) {
    const from = line.from + i * line.step_s;
    const to = Math.min(from + line.step_s, line.to);
    if (i > 0 && to - from < line.step_s / 8) break;
    open = i > 0 && to - from < line.step_s;
    x.push(open ? to : (from + to) / 2);
    perSecond.push(1 / (to - from));
  }
  return { x, perSecond, open };
}

/** rates are counts of parts as rates in a unit of so many seconds. */
const rates = (counts: (number | null)[], perSecond: number[], unit: number) =>
  perSecond.map((per, i) => (counts[i] === null || counts[i] === undefined ? null : counts[i]! * per * unit));

/** Other is a line of the same parts as another; values are guesses. */
interface Other { label: string; color: string; dashed?: boolean; line?: Line; values?: number[] }

/** plotOf is a line with its band, and others of the same parts. */
export function plotOf(line: Line, label: string, others: Other[] = []): Plot {
  const { x, perSecond, open } = parts(line);
  const all = [line.estimate, ...others.map((o) => o.line?.estimate ?? o.values ?? [])].flatMap((values) => rates(values, perSecond, 1));
  const [unit, seconds] = unitOf(Math.max(0, ...all.map((v) => v ?? 0)));
  const ended = (values: (number | null)[]) => (open ? [...values.slice(0, -1), null] : values);
  const known = (of: Line) => {
    const values = rates(of.estimate, perSecond, seconds);
    return {
      values: ended(values), lower: of.lower && ended(rates(of.lower, perSecond, seconds)), upper: of.upper && ended(rates(of.upper, perSecond, seconds)),
      open: open ? values.at(-1) ?? undefined : undefined,
    };
  };
  return {
    x, unit, span: line.to - line.from,
    traces: [{ label, color: "--accent", area: true, ...known(line) },
      ...others.map((o) => ({ label: o.label, color: o.color, dashed: o.dashed, ...(o.line ? known(o.line) : { values: rates(o.values ?? [], perSecond, seconds), guessed: true }) }))],
  };
}

/** bars are spans of the calendar; the last one is dashed until it ends. */
export function bars(points: Series["points"], unit: string, label: string, now: number): Plot {
  const open = points.length - (points.length && points.at(-1)!.at > now ? 1 : 0);
  const exact = points.every((p) => p.exact);
  const trace = (label: string, has: (i: number) => boolean): Trace => {
    const values = (what: "lower" | "estimate" | "upper") => points.map((p, i) => (has(i) ? p[what] : null));
    return { label, color: "--accent", values: values("estimate"), lower: exact ? undefined : values("lower"), upper: exact ? undefined : values("upper") };
  };
  return {
    x: points.map((p) => (p.start! + p.at + 1) / 2), unit: { hour: "h", day: "d" }[unit] ?? unit, span: points.length ? points.at(-1)!.at - points[0]!.start! : 1, bars: true,
    traces: [...(open > 0 ? [{ ...trace(label, (i) => i < open), area: true }] : []), ...(open < points.length ? [{ ...trace("so far", (i) => i >= open), dashed: true }] : [])],
  };
}

/** when says of which time a value is: of a bar, where its span begins. */
function when({ bars, unit, x }: Plot, at: number): string {
  if (!bars) return moment(at);
  return unit === "h" ? moment(at - (x.length > 1 ? (x[1]! - x[0]!) / 2 : 1800)) : span(unit)(at);
}

export class Chart {
  readonly element: HTMLElement;
  private readonly box = h("div", { class: "plot" });
  private readonly unit = h("span", { class: "unit" });
  private readonly tip = h("div", { class: "tip", "aria-hidden": "true", hidden: true });
  private readonly table = h("tbody");
  private readonly head = h("tr");
  private readonly shown = h("details", { class: "values" }, h("summary", {}, "Values as a table"),
    h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Values" }, h("table", {}, h("thead", {}, this.head), this.table)));
  private plot?: uPlot;
  private last?: Plot;
  private shape = "";
  private readonly size = new ResizeObserver(() => this.plot?.setSize(this.room()));
  private readonly again = () => this.last && this.draw(this.last, true);

  constructor(private readonly label: string, private readonly zoom?: (from: number, to: number) => void, private readonly height = 240, public counted = "hits") {
    this.box.setAttribute("role", "img");
    this.box.style.minHeight = `${height + 30}px`; // what is below does not move when the first values come
    this.element = h("figure", { class: "chart" }, this.box, this.shown);
    this.size.observe(this.box);
    this.shown.addEventListener("toggle", () => this.last && this.list(this.last));
    addEventListener("weir theme", this.again);
  }

  /** titled is the title of a card with this chart: what values are follows the text, such as (hits/s). */
  titled(title: string): (Node | string)[] { return [`${title} `, this.unit]; }

  close() {
    this.size.disconnect();
    removeEventListener("weir theme", this.again);
    this.plot?.destroy();
  }

  private room() { return { width: Math.max(this.box.clientWidth, 120), height: this.height }; }

  draw(plot: Plot, anew = false) {
    this.last = plot;
    const data: (number | null)[][] = [plot.x, ...plot.traces.map((t) => t.values)];
    const first = plot.traces[0]!;
    if (first.upper && first.lower && !plot.bars) data.push(first.upper, first.lower);
    const shape = JSON.stringify([plot.traces.map((t) => [t.label, t.color]), !!first.upper, plot.bars, plot.unit, plot.span <= 600, zone()]);
    if (!this.plot || anew || shape !== this.shape) {
      this.plot?.destroy();
      this.shape = shape;
      this.plot = new uPlot(this.options(plot), data as uPlot.AlignedData, this.box);
    } else {
      this.plot.setData(data as uPlot.AlignedData);
      this.plot.setLegend({ idxs: [], idx: undefined as never }, false); // the last values, while nothing is pointed at
    }
    text(this.unit, `(${this.counted}/${plot.unit})`);
    const known = first.values.filter((v): v is number => v !== null);
    attr(this.box, "aria-label", `${this.label}: ${first.label} now ${valueAt(first, newest(first.values)) || "0"} per ${plot.unit}, at most ${compact(Math.max(0, ...known))}, at least ${compact(known.length ? Math.min(...known) : 0)}`);
    this.list(plot);
  }

  /** list writes the values as a table, for who can't see lines. It is made only while it is open. */
  private list(plot: Plot) {
    if (!this.shown.open) return;
    this.head.replaceChildren(h("th", { scope: "col" }, "Time"), ...plot.traces.map((t) => h("th", { scope: "col", class: "n" }, `${t.label}, per ${plot.unit}`)));
    this.table.replaceChildren(...plot.x.map((at, i) => h("tr", {}, h("td", {}, when(plot, at)), ...plot.traces.map((t) => h("td", { class: "n" }, valueAt(t, i))))).reverse());
  }

  private options(plot: Plot): uPlot.Options {
    const grid = { stroke: style("--grid"), width: 1 };
    const axis = { stroke: style("--muted"), grid, ticks: { show: false }, font: `12px ${style("--font")}` };
    // While nothing is pointed at, the legend has the last values.
    const legend = (write: (v: number, of: number, at: number) => string): uPlot.Series.Value => (u, v, of, at) => {
      const shown = at ?? (plot.bars ? u.data[0].length - 1 : newest(u.data[of || 1]!));
      const value = at === null ? u.data[of]![shown] : v;
      return value === null || value === undefined ? "" : write(value, of, shown);
    };
    const series: uPlot.Series[] = [{ value: legend((at) => when(this.last ?? plot, at)) }];
    for (const t of plot.traces) {
      const color = style(t.color);
      series.push({
        label: t.label, stroke: color, width: t.dashed ? 1.25 : 2, dash: t.dashed ? [5, 4] : undefined, points: { show: false },
        fill: t.area ? (plot.bars ? faint(color, 55) : (u) => shade(u, color)) : undefined, paths: plot.bars ? uPlot.paths.bars!({ size: [0.8, 60] }) : undefined, value: legend((_, of, at) => `${valueAt(this.last?.traces[of - 1], at)} per ${plot.unit}`),
      });
    }
    const bands: uPlot.Band[] = [];
    if (plot.traces[0]!.upper && !plot.bars) {
      const color = faint(style(plot.traces[0]!.color), 45);
      const edge = (label: string): uPlot.Series => ({ label, stroke: color, width: 1, points: { show: false }, value: legend(compact) });
      bands.push({ series: [series.length, series.length + 1], fill: faint(style(plot.traces[0]!.color), 25) });
      series.push(edge("at most"), edge("at least"));
    }
    return {
      ...this.room(), series, bands, padding: [null, 40, null, null], // room for the half of the last time
      tzDate: (at) => (zone() === "UTC" ? uPlot.tzDate(new Date(at * 1000), "UTC") : new Date(at * 1000)),
      scales: { x: plot.bars && plot.x.length > 1 ? { range: (_, from, to) => [from - (plot.x[1]! - plot.x[0]!) / 2, to + (plot.x[1]! - plot.x[0]!) / 2] } : {}, y: { range: (_, __, most) => { const all = Math.max(most ?? 0, ...(this.last ?? plot).traces.map((t) => t.open ?? 0)); return [0, all > 0 ? all * 1.12 : 1]; } } },
      axes: [
        plot.bars && plot.unit !== "h"
          ? { ...axis, size: 30, splits: (u) => some(this.last?.x ?? plot.x, u.width / 80), values: (_, at) => at.map(span(plot.unit)) }
          : { ...axis, size: 30, space: plot.span <= 600 ? 76 : 60, values: (u, at) => at.map(tick(u.scales.x!.max! - u.scales.x!.min!)) },
        { ...axis, size: 54, values: (_, at) => at.map((v) => compact(v)) },
      ],
      cursor: { drag: { x: !!this.zoom, y: false, setScale: false }, points: { size: 7 } },
      legend: { live: true },
      hooks: {
        init: [(u) => { u.over.append(this.tip); }],
        setCursor: [(u) => this.point(u)],
        draw: [(u) => dashes(u, this.last ?? plot)],
        setSelect: this.zoom ? [(u) => {
          if (u.select.width > 4) this.zoom!(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x"));
        }] : [],
      },
    };
  }

  /** point writes the values next to the pointer. */
  private point(u: uPlot) {
    const at = u.cursor.idx;
    const of = this.last;
    this.tip.hidden = at === null || at === undefined || !of || (u.cursor.left ?? -1) < 0;
    if (this.tip.hidden) return;
    fill(this.tip, h("span", {}, when(of!, of!.x[at!]!)), ...of!.traces.map((t) => [t, valueAt(t, at!)] as const).filter(([, value]) => value)
      .map(([t, value]) => h("span", {}, h("i", { class: t.color.slice(2) }), `${t.label} `, h("b", {}, `${value} per ${of!.unit}`))));
    const left = u.cursor.left!;
    const right = left > u.over.clientWidth / 2;
    this.tip.style.left = right ? "auto" : `${left + 14}px`;
    this.tip.style.right = right ? `${u.over.clientWidth - left + 14}px` : "auto";
  }
}

/** some are about n of a list, as far from each other. */
function some<T>(list: T[], n: number): T[] {
  const step = Math.ceil(list.length / Math.max(1, n));
  return list.filter((_, i) => i % step === 0);
}

/** dashes draws parts that have not ended, from the last one that has. */
function dashes(u: uPlot, plot: Plot) {
  const end = plot.x.length - 1;
  plot.traces.forEach((t, i) => {
    const before = t.values[end - 1];
    if (t.open === undefined || before === null || before === undefined || !u.series[i + 1]?.show) return;
    const { ctx } = u;
    ctx.save();
    ctx.beginPath();
    ctx.strokeStyle = style(t.color);
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.moveTo(u.valToPos(plot.x[end - 1]!, "x", true), u.valToPos(before, "y", true));
    ctx.lineTo(u.valToPos(plot.x[end]!, "x", true), u.valToPos(t.open, "y", true));
    ctx.stroke();
    ctx.restore();
  });
}

/** shade is the colour under a line, which fades to the ground. */
function shade(u: uPlot, color: string): CanvasGradient | string {
  const { top, height } = u.bbox;
  if (!Number.isFinite(height) || height <= 0) return "transparent";
  const gradient = u.ctx.createLinearGradient(0, top, 0, top + height);
  gradient.addColorStop(0, faint(color, 35));
  gradient.addColorStop(1, faint(color, 2));
  return gradient;
}

/** Spark is the line of a table's row. */
export class Spark {
  private readonly lines: SVGElement[];
  readonly element: SVGElement;

  constructor(...classes: string[]) {
    this.lines = classes.map((c) => svg("path", { class: c }));
    this.element = svg("svg", { class: "spark", viewBox: "0 0 120 28", preserveAspectRatio: "none", "aria-hidden": "true" }, ...this.lines);
  }

  draw(...values: number[][]) {
    const most = Math.max(1, ...values.flat());
    values.forEach((of, i) => {
      const points = of.map((v, at) => `${((at * 120) / Math.max(1, of.length - 1)).toFixed(1)} ${(26.5 - (v * 25) / most).toFixed(1)}`);
      attr(this.lines[i]!, "d", points.length ? `M${points.join("L")}` : null);
    });
  }
}

/** whole leaves out the last part of a line, which has only begun. */
export const whole = (values: number[]) => (values.length > 2 ? values.slice(0, -1) : values);

/** Tile is one number with its name. */
export class Tile {
  private readonly value = h("strong");
  private readonly note = h("span", { class: "note" });
  readonly element: HTMLElement;

  constructor(private readonly title: string, main = false) {
    this.element = h("div", { class: main ? "tile main" : "tile" }, h("span", { class: "name" }, this.title), this.value, this.note);
  }

  set(value: string, note = "", kind = "") {
    text(this.value, value);
    text(this.note, note);
    attr(this.element, "data-kind", kind || null);
  }

  /** setKnown shows a number with what is known of it. */
  setKnown(b: Known, note = "", write = number) {
    this.set(marked(b, (n) => (n >= 10_000_000 ? compact(n) : write(n))), note);
    attr(this.value, "title", b.upper === null ? `${number(b.lower)} or more` : b.lower === b.upper ? number(b.estimate) : `${number(b.lower)} to ${number(b.upper)}`);
  }
}
