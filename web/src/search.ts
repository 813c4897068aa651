// The search field: keys that begin with what is typed, as a combobox.

import { get } from "./api";
import { attr, fill, h, name, svg } from "./dom";
import { link } from "./place";
import type { Keys } from "./types";

export function search(): HTMLElement {
  const list = h("ul", { id: "found", role: "listbox", "aria-label": "Keys", hidden: true });
  const input = h("input", {
    type: "search", role: "combobox", "aria-label": "Find a key", "aria-autocomplete": "list", "aria-controls": "found", "aria-expanded": "false",
    placeholder: "Find a key  /", autocomplete: "off", autocapitalize: "off", spellcheck: "false", maxlength: 512,
  });
  const said = h("span", { class: "away", role: "status" });
  let found: string[] = [];
  let at = -1;
  let asking = new AbortController();
  let timer = 0;

  const choose = (index: number) => {
    at = index;
    [...list.children].forEach((e, i) => attr(e, "aria-selected", String(i === at)));
    attr(input, "aria-activedescendant", at >= 0 ? `found-${at}` : null);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const close = () => {
    list.hidden = true;
    attr(input, "aria-expanded", "false");
    choose(-1);
  };
  const open = (key: string) => {
    clearTimeout(timer);
    asking.abort();
    close();
    input.value = "";
    location.hash = link("key", key);
  };
  const show = (keys: string[], more: boolean) => {
    found = keys;
    fill(list, ...keys.map((key, i) => h("li", { id: `found-${i}`, role: "option", "aria-selected": "false", mousedown: (e: Event) => (e.preventDefault(), open(key)) }, name(key))));
    said.textContent = keys.length ? `${more ? "the first " : ""}${keys.length} keys` : "no key has this prefix";
    list.hidden = keys.length === 0;
    attr(input, "aria-expanded", String(keys.length > 0));
    choose(-1);
  };
  const ask = async () => {
    asking.abort();
    asking = new AbortController();
    if (!input.value) return close();
    try {
      const answer = await get<Keys>("v1/keys", { prefix: input.value, limit: 12 }, asking.signal);
      show(answer.keys, !!answer.next);
    } catch { /* the status of the page says so, or a newer question is asked */ }
  };
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = window.setTimeout(ask, 120);
  });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (e) => {
    if (e.key === "ArrowDown" && found.length) choose((at + 1) % found.length);
    else if (e.key === "ArrowUp" && found.length) choose((at <= 0 ? found.length : at) - 1);
    else if (e.key === "Escape") close();
    else if (e.key === "Enter" && (at >= 0 || input.value)) open(at >= 0 ? found[at]! : input.value);
    else return;
    e.preventDefault();
  });
  document.addEventListener("keydown", (e) => {
    if (e.key !== "/" || e.ctrlKey || e.metaKey || (e.target as Element).closest("input, select, textarea")) return;
    e.preventDefault();
    input.focus();
  });
  const lens = svg("svg", { viewBox: "0 0 16 16", class: "lens", "aria-hidden": "true" }, svg("path", { d: "M7 2a5 5 0 1 0 0 10A5 5 0 0 0 7 2m3.6 8.6L14 14" }));
  return h("div", { class: "search", role: "search" }, input, lens, list, said);
}
