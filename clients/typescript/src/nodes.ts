import { UnavailableError, WeirError } from "./errors.js";

/** Errors of fetch in Node.js from before anything left. Elsewhere a request that failed may have left. */
const unsent = new Set([
  "ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT", "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN", "UNABLE_TO_VERIFY_LEAF_SIGNATURE", "UNABLE_TO_GET_ISSUER_CERT_LOCALLY", "CERT_HAS_EXPIRED", "ERR_TLS_CERT_ALTNAME_INVALID",
]);

export interface Sent {
  /** Makes it a POST. */
  body?: string;
  /** Default: POST with a body, else GET. */
  method?: string;
  type?: string;
  idempotencyKey?: string;
  /** A 429 without a code is a decision. */
  denials?: boolean;
}

/** Milliseconds before the next attempt: 100, doubled each time up to 5000, up to a half of it taken off at random. */
export function pause(failures: number): number {
  return Math.min(5000, 100 * 2 ** Math.min(failures, 10)) * (0.5 + Math.random() / 2);
}

/** A name that no other request has. */
export function unique(): string {
  return globalThis.crypto?.randomUUID?.() ?? [Date.now(), ...[1, 2, 3].map(() => Math.random())].map((x) => x.toString(36).replace("0.", "")).join("-");
}

/** A timer that does not keep a program running. */
export function timer(ms: number, then: () => void): ReturnType<typeof setTimeout> {
  const t = setTimeout(then, ms);
  (t as unknown as { unref?: () => void }).unref?.();
  return t;
}

export function sleep(ms: number): Promise<void> {
  return new Promise((then) => setTimeout(then, ms));
}

/** One server. */
export class Node {
  readonly address: string;
  #base: string;
  #headers: Record<string, string>;
  #fetch: typeof fetch;

  constructor(address: string, headers: Record<string, string>, by: typeof fetch) {
    let url: URL | undefined;
    try {
      url = new URL(address.includes("://") ? address : "http://" + address);
    } catch {} // said below
    if (!url || !["http:", "https:"].includes(url.protocol) || !url.hostname || url.search || url.hash) {
      throw new TypeError(`"${address}" is not the address of a server: write for example http://127.0.0.1:8080`);
    }
    this.address = url.origin;
    this.#base = url.origin + url.pathname.replace(/\/+$/, "");
    this.#headers = headers;
    this.#fetch = by;
  }

  /** One attempt of a request: the JSON that a success answers. */
  async request(target: string, sent: Sent, timeout: number): Promise<unknown> {
    const headers: Record<string, string> = { ...this.#headers };
    if (sent.type) headers["Content-Type"] = sent.type;
    if (sent.idempotencyKey) headers["Idempotency-Key"] = sent.idempotencyKey;
    const abort = new AbortController();
    const late = setTimeout(() => abort.abort(), timeout);
    let answer: Response;
    let text: string;
    try {
      const by = this.#fetch; // fetch of a browser wants no this
      answer = await by(this.#base + target, {
        method: sent.method ?? (sent.body === undefined ? "GET" : "POST"), headers, signal: abort.signal, redirect: "error",
        ...(sent.body === undefined ? {} : { body: sent.body }),
      });
      text = await answer.text();
    } catch (e) {
      const cause = (e as { cause?: { code?: string; message?: string } }).cause;
      const why = abort.signal.aborted ? `no answer within ${Math.round(timeout)} ms` : cause?.message || cause?.code || String(e);
      throw new UnavailableError(`${this.address}: ${why}`, unsent.has(cause?.code ?? "") || why === "bad port", e);
    } finally {
      clearTimeout(late);
    }
    let json: unknown;
    try {
      json = JSON.parse(text);
    } catch {} // said below
    if (answer.ok || (sent.denials && answer.status === 429 && !isProblem(answer))) {
      if (typeof json !== "object" || json === null) throw new UnavailableError(`${this.address}: the answer is not that of a Weir server`, false);
      return json;
    }
    const problem = isProblem(answer) && typeof json === "object" && json !== null ? (json as Record<string, unknown>) : {};
    throw new WeirError(answer.status, problem, 1000 * (Number(answer.headers.get("Retry-After")) || 0));
  }
}

function isProblem(answer: Response): boolean {
  return (answer.headers.get("Content-Type") ?? "").startsWith("application/problem+json");
}

/** The nodes of one cluster. The one that answered last is asked first. */
export class Nodes {
  readonly list: Node[];
  #good = 0;

  constructor(list: Node[]) {
    this.list = list;
  }

  /** Indexes of the nodes, in the order in which they are to be asked. */
  order(): number[] {
    const first = this.#good;
    return this.list.map((_, i) => (first + i) % this.list.length);
  }

  /** A request to one node, whose place in the order depends on what becomes of it. */
  async attempt(at: number, target: string, sent: Sent, timeout: number): Promise<unknown> {
    try {
      const answer = await this.list[at]!.request(target, sent, timeout);
      this.#good = at;
      return answer;
    } catch (e) {
      if (e instanceof WeirError && !e.temporary) this.#good = at;
      else this.failed(at);
      throw e;
    }
  }

  /** A node that fails is not asked first again. */
  failed(at: number): void {
    if (this.#good === at) this.#good = (at + 1) % this.list.length;
  }
}
