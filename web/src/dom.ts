// Elements, made without HTML: whatever a key is named, it is text.

type Child = Node | string | null | undefined | false;
type Props = Record<string, string | boolean | number | ((event: never) => void) | null | undefined>;

/** spoken are the attributes that people read. */
const spoken = new Set(["title", "aria-label", "placeholder", "alt"]);

const set = (e: Element, props: Props) => {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") e.addEventListener(name, value as (event: Event) => void);
    else e.setAttribute(name, value === true ? "" : spoken.has(name) ? shown(String(value)) : String(value));
  }
};

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag);
  set(e, props);
  fill(e, ...children);
  return e;
}

export function svg(tag: string, props: Props, ...children: Element[]): SVGElement {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(e, props);
  e.append(...children);
  return e;
}

/** fill replaces what is in e. */
export function fill(e: Element, ...children: Child[]) {
  e.replaceChildren(...children.filter((c): c is Node | string => c !== null && c !== undefined && c !== false).map((c) => (typeof c === "string" ? shown(c) : c)));
}

/** text changes an element's text, if it is another: a screen reader is not told for nothing. */
export function text(e: Element, value: string) {
  const safe = shown(value);
  if (e.textContent !== safe) e.textContent = safe;
}

/** attr changes an attribute; null takes it away. */
export function attr(e: Element, name: string, value: string | null) {
  if (value === null) e.removeAttribute(name);
  else if (e.getAttribute(name) !== value) e.setAttribute(name, value);
}

/** shown is any text of a server as it is displayed: control characters have pictures or escapes, and so have those that reorder or hide text. */
export const shown = (text: string) =>
  text.replace(/[\u0000-\u001f\u007f-\u009f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (c) => {
    const code = c.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? "\u2421" : `\\u${code.toString(16).padStart(4, "0")}`;
  });

/** name is an element with a key, whose direction of writing stays its own. */
export const name = (key: string) => h("bdi", {}, key);
