/**
 * Weir for TypeScript and JavaScript: count hits in rolling windows, and limit rates. It needs `fetch` and nothing else:
 * Node.js 18 or newer, Deno, Bun.
 *
 *     const w = new Client("http://127.0.0.1:8080");   // several nodes: "http://a:8080,http://b:8080"
 *     w.hit("url:/home");                              // no request: sums are sent every 100 ms
 *     (await w.count("url:/home", "5m")).estimate;
 *     if ((await w.allow("signin:bob", { limit: { n: 5, per: "1m", name: "signin" } })).allowed) ...
 *     await w.close();
 *
 * Each hit counts once: a batch that got no answer is repeated under the same Idempotency-Key at the same node, while
 * new hits go to the others. docs/clients.md has what is promised, and what may be lost.
 */

import { Sender } from "./sender.js";
import { Node, Nodes, pause, sleep, unique } from "./nodes.js";
import type { Sent } from "./nodes.js";
import { UnavailableError, WeirError } from "./errors.js";
import type { Stats } from "./sender.js";

export { UnavailableError, WeirError };
export type { Stats };

/** A duration: "5m", or seconds. */
export type Duration = string | number;

export interface Options {
  /** weir_<id>_<secret>, of `weir token create`. */
  token?: string;
  /** What allow() says while no server decides: true, the default, lets pass; false denies. A wrong token or limit throws in both cases. */
  failOpen?: boolean;
  /** Milliseconds for one attempt of a question or a batch. Default 5000. */
  timeout?: number;
  /** Milliseconds for a decision: somebody waits for it. Default 250. */
  allowTimeout?: number;
  /** Milliseconds between two batches; less, when hits fill a half of the bound. Default 100. */
  every?: number;
  /** Bounds of the hits that wait; a line is a key in a second. Beyond them hit() is false. Defaults 100,000 and 32 MiB. */
  maxLines?: number;
  maxBytes?: number;
  /**
   * Milliseconds, at most 540,000, for which a batch without an answer is repeated at its node. Default 300,000. Then it is
   * dropped, or with atLeastOnce sent to any node, where it may count a second time.
   */
  giveUp?: number;
  atLeastOnce?: boolean;
  /** Servers answer once hits are on disk. */
  durable?: boolean;
  /** Is told what keeps hits from being counted. */
  notify?: (error: Error) => void;
  /** In place of the global fetch, for client certificates and authorities of one's own. */
  fetch?: typeof fetch;
}

/** Hits of a key in (at - window_s, at]: lower <= the true number <= upper. */
export interface Count {
  key: string;
  window_s: number;
  at: number;
  lower: number;
  estimate: number;
  /** null: not known. */
  upper: number | null;
  exact: boolean;
  as_of?: number;
  late?: { node: string; since: number }[];
  /** Asked for with distinct: how many different ids the hits carried, if any did. */
  distinct?: Distinct;
}

/** How many different ids; with an error other than 0 all are estimates. */
export interface Distinct {
  estimate: number;
  /** The relative standard error; 0: lower and upper are bounds. */
  error: number;
  lower: number;
  /** null: not known. */
  upper: number | null;
  /** Of which region alone. */
  region?: string;
}

/** A count with its mean rate. */
export interface Rate extends Count {
  per_second: { lower: number; estimate: number; upper: number | null };
}

/** The keys with the most hits in a window, most first. */
export interface Top {
  window_s: number;
  at: number;
  prefix: string;
  keys: { key: string; lower: number; estimate: number; upper: number | null; exact: boolean }[];
}

/** At most n per period, burst of them at once (default n). The server keeps what keys used of it by its name. */
export interface Limit {
  n: number;
  per: Duration;
  burst?: number;
  algorithm?: "window" | "fixed" | "gcra";
  name?: string;
}

/** What one limit says. */
export interface LimitState {
  name: string;
  key: string;
  mode: "enforce" | "shadow";
  allowed: boolean;
  n: number;
  limit: number;
  per_s: number;
  burst: number;
  remaining: number;
  retry_after_s?: number;
  reset_s: number;
}

/** Whether a request may pass. */
export interface Decision {
  allowed: boolean;
  /** false: no server decided, and allowed is what failOpen says. */
  decided: boolean;
  /** Seconds until it would be allowed. */
  retryAfter: number;
  limits: LimitState[];
  /** Why nobody decided. */
  error?: Error;
}

/** Admissions that were taken for what a request may need, to be settled by id. */
export interface Reservation {
  allowed: boolean;
  /** Empty of a denial, and where no limit is for the key. */
  id: string;
  /** Seconds until it would be allowed. */
  retryAfter: number;
  /** None where a lost answer was asked for again. */
  limits: LimitState[];
}

/** What came of settling a reservation. */
export interface Settled {
  id: string;
  /** It had been settled before, and nothing has changed now. */
  again?: boolean;
  /** Used beyond the reservation, and not counted. */
  over?: number;
  limits: { name: string; key: string; reserved: number; used: number; refunded: number; over?: number; remaining: number }[];
}

/** What came of giving admissions back. */
export interface Refund {
  /** By how many more would be allowed. */
  refunded: number;
  limits: { name: string; key: string; refunded: number; remaining: number }[];
}

export interface ReserveOptions {
  limit?: string | Limit;
  /** Default 1. */
  n?: number;
  /** What policies with a cost take in place of n, such as { tokens: 812 }. */
  costs?: Record<string, number>;
  /** Within which it is settled. Default "1m". */
  ttl?: Duration;
  /** What is not settled is given back; else it stays used. */
  giveBack?: boolean;
}

export interface Asking {
  /** The end of the window, Unix seconds. Default: the server's now. */
  at?: number;
  /** Wait so long, "10s" at most, for all hits that any node took before. */
  fresh?: Duration;
}

export interface AllowOptions {
  /** A policy by its name, or a limit of your own. Default: the policies that are for the key. */
  limit?: string | Limit;
  /** Default 1. */
  n?: number;
  /** What policies with a cost take in place of n, such as { tokens: 812 }. */
  costs?: Record<string, number>;
  /** Only say what would be decided. */
  peek?: boolean;
  failOpen?: boolean;
}

/** Talks to one server, or to the nodes of one cluster. */
export class Client {
  #nodes: Nodes;
  #hits: Sender;
  #failOpen: boolean;
  #timeout: number;
  #allowTimeout: number;
  #failures = 0;
  #until = 0;

  /** addresses: http://127.0.0.1:8080, or several, comma-separated. */
  constructor(addresses: string, o: Options = {}) {
    const { every = 100, maxLines = 100_000, maxBytes = 32 * 1024 * 1024, giveUp = 300_000, timeout = 5000, allowTimeout = 250 } = o;
    if (!(every >= 1 && every <= 3_600_000)) throw new RangeError(`every is ${every}: it must be 1 to 3,600,000 ms`);
    if (!(timeout > 0 && allowTimeout > 0 && giveUp > 0 && giveUp <= 540_000)) {
      throw new RangeError("timeouts must be more than 0, giveUp at most 540,000 ms");
    }
    this.#failOpen = o.failOpen ?? true;
    this.#timeout = timeout;
    this.#allowTimeout = allowTimeout;
    const headers: Record<string, string> = { Accept: "application/json" };
    if (o.token) headers["Authorization"] = "Bearer " + o.token;
    this.#nodes = new Nodes(addresses.split(",").map((a) => new Node(a.trim(), headers, o.fetch ?? fetch)));
    this.#hits = new Sender(this.#nodes, {
      every, maxLines, maxBytes, giveUp, timeout,
      atLeastOnce: o.atLeastOnce ?? false, durable: o.durable ?? false, notify: o.notify ?? (() => {}),
    });
  }

  /**
   * Counts n hits of a key, now or at a Unix second. It makes no request. false: the bound of what waits is reached, and the
   * hits are not taken. What no server would count throws a RangeError. distinct is an id that the hits carry, such as a
   * visitor's: count() with distinct says how many different ones there were.
   */
  hit(key: string, n = 1, at: number = Date.now() / 1000, distinct?: string): boolean {
    return this.#hits.add(key, n, Math.floor(at), distinct);
  }

  /** Sends what was hit before, and waits until it is known what became of it: true. false: not within timeout ms; notify is told why, and stats().waiting is how many hits wait. */
  flush(timeout = 10_000): Promise<boolean> {
    return this.#hits.flush(timeout);
  }

  /**
   * Takes no further hits, flushes, and stops. false: some hits were not sent within timeout ms; notify is told why. When Node.js has nothing left to do it is done with
   * a timeout of 2 s; not so at process.exit() and signals.
   */
  close(timeout = 5000): Promise<boolean> {
    return this.#hits.close(timeout);
  }

  /** What became of the hits so far. */
  stats(): Stats {
    return this.#hits.stats();
  }

  /** Hits of a key in a window. */
  count(key: string, window: Duration = "5m", o: Asking & { distinct?: boolean } = {}): Promise<Count> {
    return this.#ask<Count>("/v1/count", { key, window, ...o, distinct: o.distinct ? "true" : undefined });
  }

  /** Hits of a key per second, the mean of a window. */
  rate(key: string, window: Duration = "5m", o: Asking = {}): Promise<Rate> {
    return this.#ask<Rate>("/v1/rate", { key, window, ...o });
  }

  /** The keys with the most hits in a window, of those that begin with prefix. */
  top(window: Duration = "5m", o: Asking & { n?: number; prefix?: string } = {}): Promise<Top> {
    return this.#ask<Top>("/v1/top", { window, ...o });
  }

  /**
   * Asks whether requests of a key may pass, and takes them. It is asked once, since another attempt could take twice; another
   * node is asked only if the first took nothing. While nobody decides, failOpen says what the answer is (default true: let pass), and after three
   * failures nobody waits for a second. A request that is wrong, of an unknown limit or without a token, throws a WeirError.
   */
  async allow(key: string, o: AllowOptions = {}): Promise<Decision> {
    const undecided = (error: Error): Decision => ({ allowed: o.failOpen ?? this.#failOpen, decided: false, retryAfter: 0, limits: [], error });
    if (this.#failures >= 3 && Date.now() < this.#until) return undecided(new UnavailableError("servers did not answer a moment ago", true));
    const body = asked(key, o);
    const deadline = Date.now() + this.#allowTimeout;
    let last: Error = new UnavailableError("no server was asked in time", true);
    for (const at of this.#nodes.order()) {
      const left = deadline - Date.now();
      if (left <= 0) break;
      try {
        const a = (await this.#nodes.attempt(at, "/v1/allow", { body, type: "application/json", denials: true }, left)) as Record<string, unknown>;
        if (!Array.isArray(a["limits"])) throw new UnavailableError("the answer has no verdicts: is a Weir server at this address?", false);
        this.#failures = 0;
        return { allowed: a["allowed"] === true, decided: true, retryAfter: Number(a["retry_after_s"] ?? 0), limits: a["limits"] as LimitState[] };
      } catch (e) {
        last = e as Error;
        if (e instanceof WeirError) {
          if (e.code && e.status < 500 && e.status !== 429) {
            this.#failures = 0;
            throw e;
          }
          if (!o.peek && !(e.tookNothing && e.status >= 500)) break;
        } else if (!o.peek && !(e instanceof UnavailableError && e.unsent)) break;
      }
    }
    this.#failures++;
    this.#until = Date.now() + 1000;
    return undecided(last);
  }

  /**
   * Takes n admissions for what a request may need, as allow() does; settle() says how many it did need. A request whose answer was lost
   * is sent again to the same node, which takes once. It does not fail open: where nobody decides it throws, and something may have been taken.
   */
  async reserve(key: string, o: ReserveOptions = {}): Promise<Reservation> {
    const path = target("/v1/reserve", { id: unique(), ttl: o.ttl, unsettled: o.giveBack ? "returned" : undefined });
    const sent = { body: asked(key, o), type: "application/json", denials: true };
    let order = this.#nodes.order();
    for (let round = 0; ; round++) {
      try {
        const a = (await this.#nodes.attempt(order[0]!, path, sent, this.#timeout)) as Record<string, unknown>;
        return { allowed: a["allowed"] === true, id: String(a["id"] ?? ""), retryAfter: Number(a["retry_after_s"] ?? 0), limits: a["limits"] as LimitState[] };
      } catch (e) {
        if ((e instanceof WeirError && e.status < 500) || round === 2) throw e;
        if (e instanceof UnavailableError && e.unsent && order.length > 1) order = order.slice(1); // nothing of it left: another may as well
        else await sleep(pause(round));
      }
    }
  }

  /**
   * Says how many of each limit of a reservation were used: the rest is given back. What was used beyond it counts with debt, whatever the
   * limits say, and else only if they have room for it. It may be sent again. One that is not known throws unknown_reservation.
   * For limits with different costs, used has a number for each cost, such as { tokens: 200, requests: 1 }.
   */
  settle(id: string, used: number | Record<string, number>, o: { debt?: boolean } = {}): Promise<Settled> {
    const body = JSON.stringify({ id, used, over: o.debt ? "debt" : undefined });
    return this.#ask<Settled>("/v1/settle", {}, "POST", { body, type: "application/json" });
  }

  /** Gives back what allow() took for the same arguments, at the Unix time taken, or without it the newest admissions. It is asked once: sent again it would give back twice. */
  async refund(key: string, o: { limit?: string | Limit; n?: number; taken?: number } = {}): Promise<Refund> {
    const sent = { body: asked(key, o), type: "application/json" };
    return (await this.#nodes.attempt(this.#nodes.order()[0]!, target("/v1/refund", { taken: o.taken }), sent, this.#timeout)) as Refund;
  }

  /** Has a key, as it is counted, denied under a policy for so long ("2h"), whatever it has used, in place of an earlier ban: it may be sent again. */
  ban(limit: string, key: string, length: string | number): Promise<Ban> {
    return this.#ask<Ban>("/v1/bans", { limit, key, for: length }, "POST");
  }

  /** Lifts the ban of a key; false: there was none. It may be sent again: false then. */
  async unban(limit: string, key: string): Promise<boolean> {
    return (await this.#ask<{ was: boolean }>("/v1/bans", { limit, key }, "DELETE")).was;
  }

  /** The keys that are banned, as the node that is asked knows them: at most n, 1 to 1000, those whose ban ends last first. */
  async bans(n = 100): Promise<Ban[]> {
    return (await this.#ask<{ bans: Ban[] }>("/v1/bans", { n })).bans;
  }

  /**
   * Takes a permit of all policies with max that are for a key, or of the one that limit names. When as many are held as may be it throws at_once, whose
   * after says in how many ms the first is free if its holder is silent. It is asked once: a permit whose answer was lost is free after its ttl.
   */
  async acquire(key: string, limit?: string): Promise<Permit> {
    const sent = Date.now();
    const answer = await this.#nodes.attempt(this.#nodes.order()[0]!, target("/v1/permits", { key, limit }), { method: "POST" }, this.#timeout);
    return new Permit((path, method) => this.#ask(path, {}, method), sent, answer as PermitAnswer);
  }

  async #ask<T>(path: string, query: Record<string, string | number | undefined>, method = "GET", sent?: Sent): Promise<T> {
    const timeout = this.#timeout + (query["fresh"] === undefined ? 0 : 10_000); // the most that a server waits for it
    for (let round = 0; ; round++) {
      let last: Error | undefined;
      for (const at of this.#nodes.order()) {
        try {
          return (await this.#nodes.attempt(at, target(path, query), { method, ...sent }, timeout)) as T;
        } catch (e) {
          if (e instanceof WeirError && !e.temporary) throw e;
          last = e as Error;
        }
      }
      if (round === 2) throw last;
      await sleep(Math.min(Math.max(pause(round), last instanceof WeirError ? last.after : 0), 1000));
    }
  }
}

/** A key, as it is counted, that is denied under the limit of a name until a time, in Unix seconds. */
export interface Ban {
  name: string;
  key: string;
  until: number;
}

interface PermitAnswer {
  id: string;
  ttl_s: number;
  unmatched?: boolean;
}

/** One of so many that work for a key at once: a policy with max. */
export class Permit {
  #ask: <T>(path: string, method: string) => Promise<T>;
  id = "";
  /** Milliseconds. Call heartbeat() every third of it. */
  ttl = 0;
  /** No policy with max is for the key. */
  unmatched = false;
  /** When it may be another's, by Date.now(): ttl after the last heartbeat was sent that was answered. Then stop. */
  until = 0;

  /** @internal */
  constructor(ask: <T>(path: string, method: string) => Promise<T>, sent: number, answer: PermitAnswer) {
    this.#ask = ask;
    this.#note(sent, answer);
  }

  #note(sent: number, answer: PermitAnswer): void {
    this.id = answer.id;
    this.ttl = answer.ttl_s * 1000;
    this.unmatched = answer.unmatched ?? false;
    this.until = sent + this.ttl;
  }

  /** Keeps the permit for ttl more. It throws permit_lost once it is lost, also by an answer that comes when until is over: stop, and take another. */
  async heartbeat(): Promise<void> {
    const sent = Date.now();
    const answer = await this.#ask<PermitAnswer>(`/v1/permits/${encodeURIComponent(this.id)}/heartbeat`, "POST");
    if (Date.now() >= this.until) throw new WeirError(409, { code: "permit_lost", detail: "the answer to the heartbeat came when the permit's time was over: another may have it" }, 0);
    this.#note(sent, answer);
  }

  /** Gives the permit back. It may be called again: false then. */
  async release(): Promise<boolean> {
    return (await this.#ask<{ released: boolean }>(`/v1/permits/${encodeURIComponent(this.id)}`, "DELETE")).released;
  }
}

/** What is asked of limits, as the body of a request. */
function asked(key: string, o: { limit?: string | Limit; n?: number; peek?: boolean; costs?: Record<string, number> }): string {
  return JSON.stringify({ key, n: o.n ?? 1, limit: o.limit, costs: o.costs, peek: o.peek || undefined });
}

function target(path: string, query: Record<string, string | number | undefined>): string {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== "") q.set(name, String(value));
  const text = String(q);
  return text ? `${path}?${text}` : path;
}
