// Tests of the client against real servers, which clients_test.go starts and names in the environment.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import net from "node:net";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const module = pathToFileURL(process.env.WEIR_TEST_JS).href;
const { Client, UnavailableError, WeirError } = await import(module);
const { WEIR_TEST_A: A, WEIR_TEST_LOSING: LOSING, WEIR_TEST_SILENT: SILENT, WEIR_TEST_DOWN: DOWN, WEIR_TEST_LOCKED: LOCKED, WEIR_TEST_TOKEN: TOKEN } = process.env;

let named = 0;
const unique = (name) => `ts:${name}:${process.pid}:${named++}`;
const total = async (key) => (await new Client(A).count(key)).estimate;
const sleep = (ms) => new Promise((then) => setTimeout(then, ms));

async function until(done, what) {
  for (const deadline = Date.now() + 20_000; !(await done()); await sleep(10)) assert.ok(Date.now() < deadline, `${what}: not within 20 s`);
}

test("hits are summed and asked for", async () => {
  const key = unique('é "\\\n');
  const w = new Client(A);
  for (let i = 0; i < 1000; i++) assert.ok(w.hit(key));
  assert.ok(w.hit(key, 5, Date.now() / 1000 - 100));
  assert.equal(w.stats().waiting, 1005);
  assert.ok(await w.flush(10_000));
  const c = await w.count(key, "1h");
  assert.deepEqual([c.key, c.window_s, c.lower, c.estimate, c.upper, c.exact], [key, 3600, 1005, 1005, 1005, true]);
  assert.equal((await w.count(key, 60)).estimate, 1000);
  assert.equal((await w.rate(key, "10m")).per_second.estimate, 1.675);
  assert.deepEqual((await w.top("1h", { n: 1, prefix: key.slice(0, -1) })).keys.map((k) => k.estimate), [1005]);
  assert.deepEqual(w.stats(), { taken: 1005, refused: 0, counted: 1005, tooLate: 0, rejected: 0, inDoubt: 0, waiting: 0, lines: 0, bytes: 0 });
  assert.ok(await w.close());
  assert.throws(() => w.hit(key), /closed/);
});

test("distinct", async () => {
  const key = unique("visitors");
  const w = new Client(A);
  for (let i = 0; i < 20; i++) assert.ok(w.hit(key, 1, undefined, `ann ${i % 3} "`));
  assert.ok(w.hit(key, 2));
  for (const bad of ["", "x".repeat(513)]) assert.throws(() => w.hit(key, 1, undefined, bad), RangeError);
  assert.ok(await w.flush(10_000));
  const c = await w.count(key, "5m", { distinct: true });
  assert.deepEqual([c.estimate, c.distinct], [22, { estimate: 3, error: 0, lower: 3, upper: 3 }]);
  await w.close();
});

test("sent by itself", async () => {
  const w = new Client(A);
  w.hit(unique("by itself"));
  await until(() => w.stats().counted === 1, "sent without a flush");
  await w.close();
});

test("lost answers count once", async () => {
  const key = unique("lost");
  const w = new Client(LOSING, { every: 1 });
  for (let i = 0; i < 20; i++) {
    w.hit(key, 10);
    assert.ok(await w.flush(20_000));
  }
  assert.ok(await w.close());
  assert.equal(w.stats().counted, 200);
  assert.equal(await total(key), 200);
});

test("another node takes over", async () => {
  const key = unique("over");
  const w = new Client(`${DOWN},${A}`);
  w.hit(key, 3);
  assert.ok(await w.flush(10_000));
  assert.equal((await w.count(key)).estimate, 3);
  await w.close();
});

for (const atLeastOnce of [false, true]) {
  test(`what is in doubt is given up, atLeastOnce ${atLeastOnce}`, async () => {
    const [old, fresh] = [unique("doubt"), unique("new")];
    const told = [];
    const w = new Client(`${SILENT},${A}`, { timeout: 1000, giveUp: 2500, every: 10, atLeastOnce, notify: (e) => told.push(e.message) });
    w.hit(old, 7);
    await until(() => told.length > 0, "the silent node has a batch in doubt");
    assert.match(told[0], /a batch of 7 hits got no answer/);
    w.hit(fresh);
    await until(async () => (await total(fresh)) === 1, "new hits go to the other node");
    assert.ok(await w.close(20_000));
    const s = w.stats();
    assert.deepEqual([s.inDoubt, s.counted, await total(old)], atLeastOnce ? [0, 8, 7] : [7, 1, 0]);
  });
}

test("bound", async () => {
  for (const bound of [{ maxLines: 2 }, { maxBytes: 1000 }]) {
    const told = [];
    const w = new Client(DOWN, { ...bound, notify: (e) => told.push(e.message) });
    const now = Date.now() / 1000;
    assert.ok(w.hit("a", 1, now) && w.hit("b", 1, now) && w.hit("a", 1, now));
    assert.ok(!w.hit("c".repeat(300), 5, now));
    assert.deepEqual([w.stats().taken, w.stats().refused], [3, 5]);
    assert.ok(!(await w.close(200)));
    assert.match(told[0], /hits wait: .*ECONNREFUSED/);
    assert.match(told.at(-1), /3 hits were not sent/);
  }
});

test("a burst is sent at once", async () => {
  const w = new Client(A, { every: 600_000, maxLines: 10 });
  for (let i = 0; i < 6; i++) w.hit(unique("burst"));
  await until(() => w.stats().counted === 6, "half of the bound is sent");
  await w.close();
});

test("waits for a server", async () => {
  const key = unique("later");
  const server = net.createServer((near) => {
    const far = net.connect(new URL(A).port, "127.0.0.1");
    for (const s of [near, far]) s.on("error", () => {});
    near.pipe(far).pipe(near);
  });
  const listen = (port) => new Promise((then) => server.listen(port, "127.0.0.1", then));
  await listen(0);
  const { port } = server.address();
  await new Promise((then) => server.close(then));
  const w = new Client(`127.0.0.1:${port}`);
  w.hit(key, 4);
  assert.ok(!(await w.flush(300)));
  await listen(port);
  assert.ok(await w.close(20_000));
  server.close();
  assert.equal(await total(key), 4);
});

test("wrong hits", async () => {
  const w = new Client(A);
  for (const [key, n, at] of [["", 1, 0], ["k".repeat(513), 1, 0], ["*", 1, 0], ["limit:x", 1, 0], ["\ud800", 1, 0], ["k", 0, 0], ["k", 1.5, 0], ["k", 2 ** 41, 0], ["k", 1, -1]]) {
    assert.throws(() => w.hit(key, n, at), RangeError);
  }
  w.hit("k", 1, Date.now() / 1000 + 1000);
  w.hit("k", 1, 0);
  assert.ok(await w.flush(10_000));
  assert.deepEqual([w.stats().rejected, w.stats().tooLate], [1, 1]);
  await w.close();
});

test("sent at the end of a program", async () => {
  const key = unique("end");
  execFileSync(process.execPath, ["--input-type=module", "-e", `import { Client } from ${JSON.stringify(module)}; new Client(${JSON.stringify(A)}, { every: 600_000 }).hit(${JSON.stringify(key)}, 6)`]);
  assert.equal(await total(key), 6);
});

test("settings", () => {
  for (const wrong of [{ every: 0 }, { maxLines: 0 }, { maxBytes: 9 }, { giveUp: 600_000 }, { timeout: 0 }]) assert.throws(() => new Client(A, wrong), RangeError);
  for (const address of ["", "ftp://x", "http://", "http://x?y"]) assert.throws(() => new Client(address), /is not the address of a server/);
});

test("allow", async () => {
  const [key, limit] = [unique("allow"), { n: 2, per: "1m", name: "ts" }];
  const w = new Client(A, { allowTimeout: 10_000 });
  assert.ok((await w.allow(key, { limit, peek: true })).allowed);
  assert.ok((await w.allow(key, { limit, n: 2 })).allowed);
  assert.equal((await w.allow("llm:" + key, { costs: { tokens: 70 } })).limits[0].remaining, 30);
  const d = await w.allow(key, { limit });
  assert.ok(!d.allowed && d.decided && d.retryAfter > 50 && d.limits[0].name === "ts");
  await assert.rejects(w.allow(key, { limit: "no such limit" }), (e) => e instanceof WeirError && e.code === "unknown_limit" && e.status === 404);
  await assert.rejects(w.allow(key, { limit, n: 3 }), { code: "invalid_count" });
});

test("reserve, settle, refund", async () => {
  const limit = { n: 10, per: "1m", name: "ts-reserve" };
  let key;
  for (const address of [A, LOSING]) {
    key = unique("reserve");
    const w = new Client(address);
    const r = await w.reserve(key, { limit, n: 8, ttl: "5m" });
    assert.ok(r.allowed && r.id);
    const denied = await w.reserve(key, { limit, n: 3 });
    assert.ok(!denied.allowed && !denied.id && denied.retryAfter > 0);
    assert.equal((await w.settle(r.id, 3)).limits[0].used, 3);
    const again = await w.settle(r.id, 3);
    assert.ok(again.again && again.limits[0].used === 3);
    await assert.rejects(w.settle(r.id, 5), { code: "key_reused" });
    const more = await w.reserve(key, { limit, n: 7, giveBack: true });
    assert.equal((await w.settle(more.id, 8)).over, 1);
    await assert.rejects(w.settle("no such id", 1), { code: "unknown_reservation" });
  }
  const w = new Client(A, { allowTimeout: 10_000 });
  const costs = await w.reserve("llm:" + key, { costs: { tokens: 70, requests: 2 } });
  const used = (await w.settle(costs.id, { tokens: 60, requests: 1 })).limits.map((l) => `${l.name} ${l.used}`);
  assert.deepEqual(used.sort(), ["rpm 1", "tpm 60"]);
  assert.ok(!(await w.allow(key, { limit })).allowed);
  assert.equal((await w.refund(key, { limit, n: 2 })).refunded, 2);
  assert.ok((await w.allow(key, { limit, n: 2 })).allowed);
  await assert.rejects(new Client(DOWN).reserve(key, { limit }), UnavailableError);
  assert.ok((await new Client(`${DOWN},${A}`).reserve(unique("over"), { limit })).allowed);
});

test("bans", async () => {
  const [w, key, costs] = [new Client(A, { allowTimeout: 10_000 }), "llm:" + unique("ban"), { costs: { tokens: 1 } }];
  assert.ok((await w.allow(key, costs)).allowed);
  assert.ok((await w.ban("tpm", key, "2h")).until > Date.now() / 1000 + 7000);
  assert.ok(!(await w.allow(key, costs)).allowed);
  assert.ok((await w.bans(1000)).some((b) => b.name === "tpm" && b.key === key));
  assert.ok(await w.unban("tpm", key));
  assert.ok(!(await w.unban("tpm", key)));
  assert.ok((await w.allow(key, costs)).allowed);
  await assert.rejects(w.ban("nobody", key, "2h"), { code: "unknown_limit" });
});

test("permits", async () => {
  const [w, key] = [new Client(A), "jobs:" + unique("permit")];
  const acquire = async () => {
    try {
      return await w.acquire(key);
    } catch (e) {
      assert.ok(e.code === "at_once" && e.after > 0, e); // of a server that has just started, too
    }
  };
  let permit;
  await until(async () => (permit = await acquire()), "the server knows who holds permits");
  assert.ok(!permit.unmatched && permit.ttl === 1000 && permit.until <= Date.now() + 1000);
  assert.ok((await w.acquire("none:" + key)).unmatched);
  try {
    await permit.heartbeat();
  } catch (e) {
    assert.ok(e.code === "permit_lost" && Date.now() > permit.until, e);
  }
  const other = await acquire();
  assert.ok(!other || Date.now() >= permit.until);
  await other?.release();
  await permit.release();
  assert.ok(!(await permit.release()));
  const last = await w.acquire(key, "jobs");
  assert.ok(await last.release() || Date.now() >= last.until);
  await assert.rejects(last.heartbeat(), { code: "permit_lost" });
});

test("fails open or closed", async () => {
  for (const address of [DOWN, SILENT]) {
    for (const failOpen of [true, false]) {
      const w = new Client(address, { failOpen, allowTimeout: 100 });
      const began = Date.now();
      for (let i = 0; i < 50; i++) {
        const d = await w.allow("k");
        assert.ok(d.allowed === failOpen && !d.decided && d.error instanceof UnavailableError);
      }
      assert.ok(Date.now() - began < 4000, "after three failures nobody waits"); // else it is 5 s of the silent one
      assert.equal((await w.allow("k", { failOpen: !failOpen })).allowed, !failOpen);
    }
  }
});

test("another node decides if the first took nothing", async () => {
  const limit = { n: 1, per: "1m" };
  assert.ok((await new Client(`${DOWN},${A}`, { allowTimeout: 10_000 }).allow(unique("over"), { limit })).decided);
  const d = await new Client(`${SILENT},${A}`, { allowTimeout: 200 }).allow(unique("over"), { limit });
  assert.ok(!d.decided && !d.error.unsent);
});

test("tokens and TLS", async () => {
  const key = unique("locked");
  const w = new Client(LOCKED, { token: TOKEN }); // its authority is in NODE_EXTRA_CA_CERTS
  w.hit(key, 2);
  assert.ok(await w.flush(10_000));
  assert.equal((await w.count(key)).estimate, 2);
  await w.close();
  await assert.rejects(new Client(LOCKED).count(key), { code: "unauthorized", status: 401 });
  const stranger = new Client(LOCKED);
  stranger.hit(key);
  assert.ok(!(await stranger.close(300)));
  assert.equal(stranger.stats().waiting, 1); // until it has a token
});
