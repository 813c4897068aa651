// Asking the server: by one request, or by a stream of events.

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

async function ask(path: string, params: Params, accept: string, signal: AbortSignal, method = "GET"): Promise<Response> {
  const headers: Record<string, string> = { Accept: accept };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  const answer = await fetch(url(path, params), { method, headers, signal, cache: "no-store" });
  if (answer.ok) return answer;
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

export async function get<T>(path: string, params: Params, signal: AbortSignal): Promise<T> {
  return (await ask(path, params, "application/json", signal)).json();
}

/** change asks for something that changes what the server has. */
export async function change<T>(method: "POST" | "DELETE", path: string, params: Params): Promise<T> {
  return (await ask(path, params, "application/json", AbortSignal.timeout(10_000), method)).json();
}

export type State = "connecting" | "live" | "lost";
export interface Watcher<T> { view(view: T): void; problem(problem: Problem): void; state(state: State): void }

/** Longer than the server ever leaves a view that it makes. */
const silence = 60_000;

/** watch asks for a stream of views until the function that it returns is called, and asks again whenever it
 * ends. While nobody sees the page there is none. */
export function watch<T>(path: string, params: Params, to: Watcher<T>): () => void {
  let now = new AbortController();
  let ended = false;
  const run = async (signal: AbortSignal) => {
    for (let wait = 250; !signal.aborted; wait = Math.min(wait * 2, 5000)) {
      try {
        const answer = await ask(path, params, "text/event-stream", signal);
        for await (const [event, data] of events(answer.body!)) {
          wait = 250;
          to.state("live");
          if (event === "view") to.view(JSON.parse(data) as T);
          else if (event === "problem") {
            const p = JSON.parse(data);
            to.problem(new Problem(p.status, p.code, p.detail));
          }
        }
      } catch (failure) {
        if (signal.aborted) return;
        if (failure instanceof Problem) {
          to.problem(failure);
          if (failure.status < 500 && failure.status !== 429) return; // the same question has the same answer
        }
      }
      if (signal.aborted) return;
      to.state("lost");
      await pause(wait * (0.75 + Math.random() / 2), signal);
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

async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<[string, string]> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let heard = Date.now();
  // A connection may be dead and nobody says so: the stream ends when nothing comes for too long.
  const watchdog = setInterval(() => { if (Date.now() - heard > silence) void reader.cancel().catch(() => undefined); }, silence / 12);
  try {
    for (let rest = ""; ; ) {
      const { done, value } = await reader.read();
      if (done) return;
      heard = Date.now();
      const parts = (rest + value).split("\n\n");
      rest = parts.pop()!;
      for (const part of parts) {
        const [event, data] = part.split("\n");
        if (event?.startsWith("event: ") && data?.startsWith("data: ")) yield [event.slice(7), data.slice(6)];
      }
    }
  } finally {
    clearInterval(watchdog);
    void reader.cancel().catch(() => undefined);
  }
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
