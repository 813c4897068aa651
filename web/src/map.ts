// A map of who is heard: one in the middle, and the others around it.

import { fill, h, shown, svg } from "./dom";
import { duration } from "./format";

/** An Other is around the middle. The line to it is whole (up), broken (down) or pale (none); words are for who can't see it. */
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

const short = (name: string) => (name.length > 16 ? `${name.slice(0, 15)}\u2026` : name);

function label(x: number, y: number, text: string, kind = ""): SVGElement {
  const made = svg("text", { x, y, class: kind, "text-anchor": "middle" });
  made.textContent = shown(text);
  return made;
}

function draw(self: string, others: Other[]): SVGElement {
  const [width, height] = [640, others.length > 6 ? 420 : 300];
  const parts = others.map((o, i) => {
    const turn = (i / others.length) * 2 * Math.PI - Math.PI / 2;
    const [x, y] = [width / 2 + Math.cos(turn) * (width / 2 - 90), height / 2 + Math.sin(turn) * (height / 2 - 44)];
    return svg("g", { class: o.state }, svg("line", { class: o.line, x1: width / 2, y1: height / 2, x2: x, y2: y }), svg("circle", { cx: x, cy: y, r: 9 }),
      label(x, y + (y < height / 2 ? -16 : 26), short(o.name)), label((width / 2 + x) / 2, (height / 2 + y) / 2 - 5, o.note, "note"));
  });
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${self} hears: ${others.map((o) => `${o.name}: ${o.words}`).join("; ")}` }, ...parts,
    svg("g", { class: "self" }, svg("circle", { cx: width / 2, cy: height / 2, r: 12 }), label(width / 2, height / 2 + 32, short(self))));
}
