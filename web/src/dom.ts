// Elements, made without HTML: whatever a key is named, it is text.

type Child = Node | string | null | undefined | false;
type Props = Record<string, string | boolean | number | ((event: never) => void) | null | undefined>;

const set = (e: Element, props: Props) => {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") e.addEventListener(name, value as (event: Event) => void);
    else e.setAttribute(name, value === true ? "" : String(value));
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
  e.replaceChildren(...children.filter((c): c is Node | string => c !== null && c !== undefined && c !== false));
}

/** text changes an element's text, if it is another: a screen reader is not told for nothing. */
export function text(e: Element, value: string) {
  if (e.textContent !== value) e.textContent = value;
}

/** attr changes an attribute; null takes it away. */
export function attr(e: Element, name: string, value: string | null) {
  if (value === null) e.removeAttribute(name);
  else if (e.getAttribute(name) !== value) e.setAttribute(name, value);
}

/** shown is a key as text: control characters have pictures, so that two keys never look alike by them. */
export const shown = (key: string) =>
  key.replace(/[\u0000-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0))).replace(/\u007f/g, "\u2421");

/** name is an element with a key, whose direction of writing stays its own. */
export const name = (key: string) => h("bdi", {}, shown(key));
