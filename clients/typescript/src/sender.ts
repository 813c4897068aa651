import { UnavailableError, WeirError } from "./errors.js";
import { pause, timer, type Nodes, unique } from "./nodes.js";

/** What became of hits: taken = counted + tooLate + rejected + inDoubt + waiting. */
export interface Stats {
  /** Hits that hit() took. */
  taken: number;
  /** Hits that it did not, at the bound. */
  refused: number;
  counted: number;
  /** Not counted: older than the server's retention. */
  tooLate: number;
  /** Not counted by a server for what they are; notify has the reasons. */
  rejected: number;
  /** Given up, and counted or not. */
  inDoubt: number;
  /** Not sent, or not answered. */
  waiting: number;
  /** That wait: a key in a second. */
  lines: number;
  bytes: number;
}

export interface SenderOptions {
  every: number;
  maxLines: number;
  maxBytes: number;
  giveUp: number;
  timeout: number;
  atLeastOnce: boolean;
  durable: boolean;
  notify: (error: Error) => void;
}

interface Line {
  key: string;
  second: number;
  n: number;
  bytes: number;
  distinct: string | undefined;
}

/** Lines that are sent together. Its body and its key are the same in every attempt. */
interface Batch {
  lines: Line[];
  generation: number;
  key: string;
}

/** What an attempt came to. later: nothing was counted by it. doubt: nobody knows. */
type Outcome =
  | { is: "settled"; answer: Answer; error?: Error }
  | { is: "split" }
  | { is: "later" | "doubt"; error: Error };

interface Answer {
  counted?: number;
  too_late?: number;
  rejected_lines?: number;
  rejected?: { message: string }[];
  retry_from?: number;
}

export const lineBytes = 400; // what a line that waits takes at most beside its key
const maxKeyBytes = 512;
const maxHits = 2 ** 40;
const batchLines = 50_000;
const batchBytes = 4 * 1024 * 1024;

const text = new TextEncoder();

/** Sums up hits by key and second, and sends them. */
export class Sender {
  #nodes: Nodes;
  #o: SenderOptions;
  #sums = new Map<number, Map<string, Line>>(); // by second
  #queue: Batch[] = []; // to be sent, in this order
  #open = new Set<Batch>();
  #doubts = new Set<number>(); // nodes at which a batch is repeated, and to which no other is sent
  #failures: number[];
  #notUntil: number[];
  #generation = 0; // of the next lines that are taken
  #timer: ReturnType<typeof setTimeout> | undefined;
  #sending = false;
  #hurried = false; // sendAll comes at once
  #closed = false;
  #stopped = false;
  #waiters = new Set<() => void>();
  #s = { taken: 0, refused: 0, counted: 0, tooLate: 0, rejected: 0, inDoubt: 0, lines: 0, bytes: 0 };

  constructor(nodes: Nodes, o: SenderOptions) {
    if (o.maxLines < 1 || o.maxBytes < maxKeyBytes + lineBytes) {
      throw new RangeError(`maxLines is ${o.maxLines}, maxBytes ${o.maxBytes}: there must be room for a line, of ${maxKeyBytes + lineBytes} bytes`);
    }
    this.#nodes = nodes;
    this.#o = o;
    this.#failures = nodes.list.map(() => 0);
    this.#notUntil = nodes.list.map(() => 0);
  }

  add(key: string, n: number, second: number, distinct?: string): boolean {
    if (!(Number.isInteger(n) && n >= 1 && n <= maxHits)) throw new RangeError(`${n} hits: n must be a whole number, 1 to ${maxHits}`);
    if (this.#closed) throw new Error("the client is closed: this hit was not taken");
    let sums = this.#sums.get(second);
    const place = distinct === undefined ? key : "\ud800" + JSON.stringify([key, distinct]); // no key has half a surrogate pair
    const held = sums?.get(place);
    if (held && held.n + n <= maxHits) {
      held.n += n;
      this.#s.taken += n;
      return true;
    }
    const bytes = lineBytes + check(key, second) + checkID(distinct);
    if (held || this.#s.lines >= this.#o.maxLines || this.#s.bytes + bytes > this.#o.maxBytes) {
      this.#s.refused += n;
      return false;
    }
    if (!sums) this.#sums.set(second, (sums = new Map()));
    sums.set(place, { key, second, n, bytes, distinct });
    this.#s.taken += n;
    this.#s.lines++;
    this.#s.bytes += bytes;
    if (this.#s.lines * 2 > this.#o.maxLines || this.#s.bytes * 2 > this.#o.maxBytes) {
      if (!this.#hurried) this.#wakeIn(0); // once: hits that come fast must not put it off
      this.#hurried = true;
    } else if (!this.#timer && !this.#sending) this.#wakeIn(this.#o.every);
    atExit(this);
    return true;
  }

  stats(): Stats {
    const s = this.#s;
    return { ...s, waiting: s.taken - s.counted - s.tooLate - s.rejected - s.inDoubt };
  }

  async flush(timeout: number): Promise<boolean> {
    const upTo = this.#sums.size > 0 ? this.#generation : this.#generation - 1;
    const deadline = Date.now() + timeout;
    this.#wakeIn(0);
    while (!this.#settled(upTo)) {
      const left = deadline - Date.now();
      if (left <= 0 || this.#stopped) return false;
      await new Promise<void>((then) => {
        const done = () => {
          clearTimeout(late);
          this.#waiters.delete(done);
          then();
        };
        const late = setTimeout(done, Math.min(left, 2 ** 31 - 1)); // keeps the program running
        this.#waiters.add(done);
      });
    }
    return true;
  }

  async close(timeout: number): Promise<boolean> {
    this.#closed = true;
    const done = await this.flush(timeout);
    this.#stopped = true;
    clearTimeout(this.#timer);
    exiting.delete(this);
    const { waiting } = this.stats();
    if (waiting > 0) this.#tell(new Error(`${waiting} hits were not sent, or not answered, before the end`));
    return done;
  }

  #settled(upTo: number): boolean {
    if (this.#generation <= upTo) return false;
    for (const b of this.#open) if (b.generation <= upTo) return false;
    return true;
  }

  #changed(): void {
    for (const waiter of [...this.#waiters]) waiter();
  }

  #tell(error: Error): void {
    try {
      this.#o.notify(error);
    } catch {} // the caller's fault must not end the counting
  }

  #wakeIn(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#stopped) this.#timer = timer(ms, () => void this.#sendAll());
  }

  /** Sends until nothing is left, or no node is to be asked now. */
  async #sendAll(): Promise<void> {
    this.#hurried = false;
    if (this.#sending) return;
    this.#sending = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    let wait: number | undefined;
    try {
      while (!this.#stopped) {
        const free = this.#free();
        if (typeof free === "object") {
          wait = free.wait;
          break;
        }
        const b = this.#next();
        if (!b) break;
        this.#end(free, b, await this.#post(free, b));
      }
    } finally {
      this.#sending = false;
    }
    if (wait !== undefined) this.#wakeIn(wait);
    else if (this.#sums.size > 0) this.#wakeIn(this.#o.every);
  }

  /** The node to send to, or how long none is to be asked. */
  #free(): number | { wait: number } {
    const now = Date.now();
    let wait = this.#o.every; // whoever repeats a batch wakes when it is over
    for (const at of this.#nodes.order()) {
      if (this.#doubts.has(at)) continue;
      const left = this.#notUntil[at]! - now;
      if (left <= 0) return at;
      wait = Math.min(wait, Math.max(left, 1));
    }
    return { wait };
  }

  /** The batch to send. While some wait, none is made, so that hits go on adding up. */
  #next(): Batch | undefined {
    if (this.#queue.length === 0) {
      const lines = [...this.#sums.values()].flatMap((sums) => [...sums.values()]);
      this.#sums = new Map();
      const generation = this.#generation++;
      this.#add(parts(lines).map((part) => newBatch(part, generation)));
      if (lines.length === 0) this.#changed();
    }
    return this.#queue.shift();
  }

  #add(list: Batch[]): void {
    for (const b of list) this.#open.add(b);
    this.#queue.unshift(...list);
  }

  /** One attempt. */
  async #post(at: number, b: Batch): Promise<Outcome> {
    const body = b.lines.map((l) => JSON.stringify({ key: l.key, n: l.n, at: l.second, distinct: l.distinct }) + "\n").join("");
    try {
      const target = this.#o.durable ? "/v1/hits?durable=true" : "/v1/hits";
      const answer = (await this.#nodes.attempt(at, target, { body, type: "application/x-ndjson", idempotencyKey: b.key }, this.#o.timeout)) as Answer;
      if (typeof answer.counted === "number") return { is: "settled", answer };
      return { is: "doubt", error: new UnavailableError("the answer is not that of a Weir server", false) };
    } catch (e) {
      const error = e as Error;
      if (!(e instanceof WeirError)) return { is: e instanceof UnavailableError && e.unsent ? "later" : "doubt", error };
      const tooLarge = e.code === "too_many_lines" || e.code === "body_too_large";
      if (tooLarge && b.lines.length > 1) return { is: "split" };
      if (!e.tookNothing) return { is: "doubt", error };
      // Who may send hits, and what a server is set to, may change; what hits are does not.
      const answer = e.problem as Answer;
      if (!e.temporary && (tooLarge || e.code === "nothing_counted" || e.code === "too_late" || answer.rejected_lines)) return { is: "settled", answer, error };
      return { is: "later", error };
    }
  }

  #end(at: number, b: Batch, o: Outcome): void {
    switch (o.is) {
      case "settled":
        return this.#settle(at, b, o.answer, o.error);
      case "split": {
        const half = b.lines.length >> 1;
        this.#open.delete(b);
        return this.#add([newBatch(b.lines.slice(0, half), b.generation), newBatch(b.lines.slice(half), b.generation)]);
      }
      case "later":
        this.#queue.unshift(b);
        this.#rest(at, o.error);
        this.#nodes.failed(at);
        return this.#tell(new Error(`${this.#nodes.list[at]!.address}: hits wait: ${o.error.message}`, { cause: o.error }));
      case "doubt":
        void this.#repeat(at, b, o.error);
    }
  }

  /**
   * Sends a batch that may have been counted to its node again and again: there is one for a node at most, and the other
   * nodes take what is new. That an attempt is refused says nothing about those before it.
   */
  async #repeat(at: number, b: Batch, error: Error): Promise<void> {
    this.#doubts.add(at);
    const end = Date.now() + this.#o.giveUp;
    const hits = total(b.lines);
    const address = this.#nodes.list[at]!.address;
    for (;;) {
      this.#tell(new Error(`${address}: a batch of ${hits} hits got no answer, and is sent there again: ${error.message}`, { cause: error }));
      const wait = Math.min(this.#rest(at, error), end - Date.now());
      await new Promise<void>((then) => timer(Math.max(wait, 0), then));
      if (this.#stopped) return;
      if (Date.now() >= end) break;
      const o = await this.#post(at, b);
      if (o.is === "settled") {
        this.#doubts.delete(at);
        this.#settle(at, b, o.answer, o.error);
        return this.#wakeIn(0);
      }
      if (o.is !== "split") error = o.error;
    }
    this.#doubts.delete(at);
    if (this.#o.atLeastOnce) this.#queue.unshift(b);
    else {
      this.#s.inDoubt += hits;
      this.#open.delete(b);
      this.#release(b.lines);
    }
    this.#tell(new Error(`${address}: of ${hits} hits that it did not answer nobody knows whether they count: they are ${this.#o.atLeastOnce ? "sent again, also to other nodes" : "dropped"}`));
    this.#wakeIn(0);
  }

  #rest(at: number, error: Error): number {
    const ms = Math.max(pause(this.#failures[at]!++), error instanceof WeirError ? Math.min(error.after, 5000) : 0);
    this.#notUntil[at] = Date.now() + ms;
    return ms;
  }

  #settle(at: number, b: Batch, answer: Answer, error?: Error): void {
    this.#failures[at] = 0;
    this.#notUntil[at] = 0;
    this.#open.delete(b);
    let done = b.lines;
    const start = answer.retry_from ?? 0;
    if (start > 1 && start <= b.lines.length) {
      done = b.lines.slice(0, start - 1);
      this.#add([newBatch(b.lines.slice(start - 1), b.generation)]); // the server took none of these: another key for them
      this.#notUntil[at] = Date.now() + 1000;
    }
    const sent = total(done);
    const counted = Math.min(answer.counted ?? 0, sent);
    const late = Math.min(answer.too_late ?? 0, sent - counted);
    const rejected = sent - counted - late;
    this.#s.counted += counted;
    this.#s.tooLate += late;
    this.#s.rejected += rejected;
    this.#release(done);
    if (rejected > 0) this.#tell(new Error(`${rejected} hits were rejected, the first because ${answer.rejected?.[0]?.message ?? error?.message}`));
  }

  #release(lines: Line[]): void {
    this.#s.lines -= lines.length;
    for (const l of lines) this.#s.bytes -= l.bytes;
    this.#changed();
  }
}

/** The bytes of a key that a server would count. */
function check(key: string, second: number): number {
  const bytes = text.encode(key).length;
  if (bytes < 1 || bytes > maxKeyBytes) throw new RangeError(`a key of ${bytes} bytes: it must have 1 to ${maxKeyBytes}`);
  if (/\p{Surrogate}/u.test(key)) throw new RangeError("the key has half a surrogate pair: it must be Unicode");
  if (key === "*" || key.startsWith("limit:")) throw new RangeError(`key "${key}": the server counts it by itself, and takes no hits of it`);
  if (!(second >= 0)) throw new RangeError(`a hit at second ${second}: it must be 0 or more`);
  return bytes;
}

function checkID(distinct: string | undefined): number {
  if (distinct === undefined) return 0;
  const bytes = text.encode(distinct).length;
  if (bytes < 1 || bytes > maxKeyBytes) throw new RangeError(`distinct of ${bytes} bytes: it must have 1 to ${maxKeyBytes}`);
  return bytes;
}

function total(lines: Line[]): number {
  let n = 0;
  for (const l of lines) n += l.n;
  return n;
}

function parts(lines: Line[]): Line[][] {
  const list: Line[][] = [];
  let bytes = Infinity;
  for (const l of lines) {
    if (bytes >= batchBytes || list[list.length - 1]!.length >= batchLines) {
      list.push([]);
      bytes = 0;
    }
    list[list.length - 1]!.push(l);
    bytes += l.bytes - lineBytes + 64;
  }
  return list;
}

function newBatch(lines: Line[], generation: number): Batch {
  return { lines, generation, key: unique() };
}

/** Senders with hits, which are sent when Node.js has nothing left to do. */
const exiting = new Set<Sender>();
let hooked = false;

function atExit(s: Sender): void {
  exiting.add(s);
  if (hooked) return;
  hooked = true;
  const process = (globalThis as { process?: { on?: (event: string, then: () => void) => void } }).process;
  process?.on?.("beforeExit", () => {
    for (const s of [...exiting]) {
      exiting.delete(s); // beforeExit comes again
      void s.flush(2000);
    }
  });
}
