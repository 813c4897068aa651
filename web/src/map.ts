// A map of who is heard: one in the middle, and the others on both sides.

import { fill, h, shown, svg } from "./dom";
import { duration } from "./format";

/** An Other is next to the middle. The line to it is whole (up), broken (down) or pale (none); words are for who can't see it. */
export interface Other { name: string; state: "heard" | "late" | "left"; line: "up" | "down" | "none"; note: string; words: string }

/** rounded is a time of seconds to one digit, so that a map is not drawn again for nothing. */
export const rounded = (s: number) => (s ? duration(Number((s * 1000).toPrecision(1)) / 1000) : "");

export class HearingMap {
  readonly element = h("div", { class: "map" });
  private drawn = "";

  /** set draws the map, if it is another. */
  set(self: string, others: Other[]) {
    const now = JSON.stringify([self, others]);
    if (now === this.drawn) return;
    this.drawn = now;
    fill(this.element, draw(self, others));
  }
}

const short = (name: string) => (name.length > 14 ? `${name.slice(0, 13)}\u2026` : name);

function label(x: number, y: number, text: string, anchor: string, kind = ""): SVGElement {
  const made = svg("text", { x, y, class: kind, "text-anchor": anchor });
  made.textContent = shown(text);
  return made;
}

const [width, row] = [400, 46];

/** draw has the others in two columns, with a row of its own for each: names can't overlap. */
function draw(self: string, others: Other[]): SVGElement {
  const rows = Math.ceil(others.length / 2);
  const height = Math.max(rows * row, 76);
  const [cx, cy] = [width / 2, height / 2];
  const places = others.map((o, i) => {
    const right = i % 2 === 0;
    const inColumn = right ? rows : others.length - rows;
    return { o, x: cx + (right ? 76 : -76), y: cy + (Math.floor(i / 2) - (inColumn - 1) / 2) * row, out: right ? 16 : -16, anchor: right ? "start" : "end" };
  });
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${self} hears: ${others.map((o) => `${o.name}: ${o.words}`).join("; ")}` },
    ...places.map(({ o, x, y, out, anchor }) => svg("g", { class: o.state }, svg("line", { class: o.line, x1: cx, y1: cy, x2: x, y2: y }), svg("circle", { cx: x, cy: y, r: 8 }),
      label(x + out, y + (o.note ? -2 : 5), short(o.name), anchor), label(x + out, y + 14, o.note, anchor, "note"))),
    svg("g", { class: "self" }, svg("circle", { cx, cy, r: 11 }), label(cx, cy + 30, short(self), "middle")));
}
