// Where the reader is: everything a page shows is in its URL, after the #, so that it works under any path.

/** Place says which page is asked for; "unknown" has what was asked as its name. */
export interface Place { page: "overview" | "key" | "limits" | "log" | "nodes" | "site" | "why" | "unknown"; name: string; params: URLSearchParams }

export function here(): Place {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [page, ...rest] = path.split("/");
  const params = new URLSearchParams(query);
  if (page === "key" || page === "site" || page === "limits" || page === "why") return { page, name: decode(rest.join("/")), params };
  if ((page === "nodes" || page === "log" || page === "") && rest.length === 0) return { page: page || "overview", name: "", params };
  return { page: "unknown", name: decode(path), params };
}

function decode(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // somebody typed a %
  }
}

export function link(page: Place["page"], name = "", params: Record<string, string | string[] | undefined> = {}): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) for (const one of [value].flat()) if (one) query.append(key, one);
  const path = page === "overview" ? "#/" : `#/${page}${name ? `/${encodeURIComponent(name)}` : ""}`;
  return query.size ? `${path}?${query}` : path;
}

export const windows = ["1m", "5m", "1h", "1d", "1w"];

/** windowOf is the window that a place asks for. */
export const windowOf = (place: Place, otherwise: string) => {
  const asked = place.params.get("window") ?? "";
  return windows.includes(asked) ? asked : otherwise;
};
