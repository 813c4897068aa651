// What a reader chose, kept by the browser where it may: a page from a file may not.

const here: Record<string, string> = {};

export function kept(what: string): string {
  try {
    return localStorage.getItem(what) ?? "";
  } catch {
    return here[what] ?? "";
  }
}

export function keep(what: string, value: string) {
  here[what] = value;
  try {
    localStorage.setItem(what, value);
  } catch { /* it lasts as long as the page */ }
}
