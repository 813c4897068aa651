// Asking the server: once, or again and again.

export class Problem extends Error {
  constructor(readonly status: number, readonly code: string, detail: string) { super(detail); }
}

const tokenAt = "weir token";
export const token = {
  get: () => sessionStorage.getItem(tokenAt) ?? "",
  set: (value: string) => (value ? sessionStorage.setItem(tokenAt, value) : sessionStorage.removeItem(tokenAt)),
};

type Params = Record<string, string | number | string[] | undefined>;

/** url is relative to the page, so that a proxy may have it under any path. */
function url(path: string, params: Params): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined && one !== "") query.append(name, String(one));
  return query.size ? `${path}?${query}` : path;
}

async function ask<T>(path: string, params: Params, signal: AbortSignal, method = "GET"): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  const answer = await fetch(url(path, params), { method, headers, signal, cache: "no-store" });
  if (answer.ok) return answer.json();
  throw await problemOf(answer);
}

async function problemOf(answer: Response): Promise<Problem> {
  try {
    const p = await answer.json();
    return new Problem(answer.status, String(p.code ?? ""), String(p.detail ?? answer.statusText));
  } catch {
    return new Problem(answer.status, "", `the server answered ${answer.status}`);
  }
}

export function get<T>(path: string, params: Params, signal: AbortSignal): Promise<T> {
  return ask(path, params, signal);
}

/** change asks for something that changes what the server has. */
export function change<T>(method: "POST" | "DELETE", path: string, params: Params): Promise<T> {
  return ask(path, params, AbortSignal.timeout(10_000), method);
}

export type State = "connecting" | "live" | "lost";
export interface Watcher<T> { view(view: T): void; problem(problem: Problem): void; state(state: State): void }

/** How long a page waits for an answer, and how long it rests after one. */
const patience = 60_000, every = 1000;

/** watch asks for a view again and again until the function that it returns is called, and after a failure less often.
 * While nobody sees the page it does not ask. */
export function watch<T>(path: string, params: Params, to: Watcher<T>): () => void {
  let now = new AbortController();
  let ended = false;
  const run = async (signal: AbortSignal) => {
    for (let wait = every; !signal.aborted; await pause(wait, signal)) {
      try {
        const view = await get<T>(path, params, AbortSignal.any([signal, AbortSignal.timeout(patience)]));
        if (signal.aborted) return;
        wait = every;
        to.state("live");
        to.view(view);
      } catch (failure) {
        if (signal.aborted) return;
        if (failure instanceof Problem) {
          to.problem(failure);
          if (failure.status < 500 && failure.status !== 429) return; // the same question has the same answer
        }
        to.state("lost");
        wait = Math.min(wait * 2, 5000) * (0.75 + Math.random() / 2);
      }
    }
  };
  const follow = () => {
    now.abort();
    if (ended || document.hidden) return;
    now = new AbortController();
    to.state("connecting");
    void run(now.signal);
  };
  document.addEventListener("visibilitychange", follow);
  follow();
  return () => {
    ended = true;
    document.removeEventListener("visibilitychange", follow);
    now.abort();
  };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}
