// A table that lives: rows are kept by their name, so that focus and selection stay where they are.

import { h, text } from "./dom";

export interface Row<T> { element: HTMLTableRowElement; update(of: T): void }
interface Column { title: string; class?: string; hidden?: boolean }

export class LiveTable<T> {
  readonly element: HTMLElement;
  private readonly body = h("tbody", { class: "rows" });
  private readonly empty: HTMLElement;
  private rows = new Map<string, Row<T>>();
  private order: string[] = [];

  constructor(caption: string, columns: Column[], private readonly said: string, private readonly make: (of: T) => Row<T>) {
    this.empty = h("p", { class: "empty", hidden: true }, said);
    this.element = h("div", { class: "scroll" },
      h("table", {}, h("caption", { class: "away" }, caption),
        h("thead", {}, h("tr", {}, ...columns.map((c) => h("th", { scope: "col", class: c.class }, c.hidden ? h("span", { class: "away" }, c.title) : c.title)))), this.body),
      this.empty);
  }

  /** While the reader points at a row, or has the focus in one, rows keep their places: nobody clicks what just moved. */
  held() { return this.body.matches(":hover") || this.body.contains(document.activeElement); }

  /** update shows a list; empty says why it has no row, where that is not the usual. */
  update(list: T[], nameOf: (of: T) => string, empty = this.said) {
    text(this.empty, empty);
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
      if (!row) this.rows.set(name, (row = this.make(of)));
      row.update(of);
      const next: Element | null = before ? before.nextElementSibling : this.body.firstElementChild;
      if (next !== row.element) this.body.insertBefore(row.element, next);
      before = row.element;
    }
    this.order = order;
    this.empty.hidden = order.length > 0;
  }
}
