// A table that lives: rows are kept by their name, so that focus and selection stay where they are.

import { h } from "./dom";

export interface Row<T> { element: HTMLTableRowElement; update(of: T): void }
interface Column { title: string; class?: string; hidden?: boolean }

export class LiveTable<T> {
  readonly element: HTMLElement;
  private readonly body = h("tbody", { class: "rows", role: "rowgroup" });
  private readonly empty: HTMLElement;
  private rows = new Map<string, Row<T>>();
  private order: string[] = [];

  constructor(caption: string, private readonly columns: Column[], said: string | Node, private readonly make: (of: T) => Row<T>) {
    this.empty = h("div", { class: "empty", hidden: true }, said);
    // On phones a row is two lines (style.css), which takes a table's meaning away: roles keep it.
    this.element = h("div", { class: columns.length > 3 ? "scroll live-rows" : "scroll" },
      h("table", { role: "table" }, h("caption", { class: "away" }, caption),
        h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ...columns.map((c) => h("th", { role: "columnheader", scope: "col", class: c.class }, c.hidden ? h("span", { class: "away" }, c.title) : c.title)))), this.body),
      this.empty);
  }

  /** While the reader points at a row, or has the focus in one, rows keep their places: nobody clicks what just moved. */
  held() { return this.body.matches(":hover") || this.body.contains(document.activeElement); }

  private labelled(row: Row<T>): Row<T> {
    row.element.setAttribute("role", "row");
    [...row.element.cells].forEach((cell, i) => {
      cell.setAttribute("role", cell.tagName === "TH" ? "rowheader" : "cell");
      if (i > 0 && cell.tagName === "TD" && !this.columns[i]?.hidden) cell.dataset.label = this.columns[i]?.title ?? "";
    });
    return row;
  }

  /** update shows a list. */
  update(list: T[], nameOf: (of: T) => string) {
    const was = new Map(this.order.map((name, i) => [name, i]));
    const named = new Map(list.map((of) => [nameOf(of), of]));
    let order = [...named.keys()];
    if (this.held()) order = order.sort((a, b) => (was.get(a) ?? Infinity) - (was.get(b) ?? Infinity) || 0);
    for (const name of this.rows.keys()) {
      if (named.has(name)) continue;
      this.rows.get(name)!.element.remove();
      this.rows.delete(name);
    }
    let before: Element | null = null;
    for (const name of order) {
      const of = named.get(name)!;
      let row = this.rows.get(name);
      if (!row) this.rows.set(name, (row = this.labelled(this.make(of))));
      row.update(of);
      const next: Element | null = before ? before.nextElementSibling : this.body.firstElementChild;
      if (next !== row.element) this.body.insertBefore(row.element, next);
      before = row.element;
    }
    this.order = order;
    this.empty.hidden = order.length > 0;
    this.element.toggleAttribute("data-empty", order.length === 0);
  }
}
