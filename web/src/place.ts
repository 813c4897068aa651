// Where the reader is: everything a page shows is in its URL, after the #, so that it works under any path.

export interface Place { page: "overview" | "key" | "limits" | "log" | "nodes" | "why"; name: string; params: URLSearchParams }

export function here(): Place {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [page, ...rest] = path.split("/");
  const params = new URLSearchParams(query);
  if (page === "key" || page === "limits" || page === "why") return { page, name: decode(rest.join("/")), params };
  return { page: page === "nodes" || page === "log" ? page : "overview", name: "", params };
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
