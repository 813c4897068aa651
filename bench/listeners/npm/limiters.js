// node limiters.js WEIR REDIS: express-rate-limit with rate-limit-redis, @fastify/rate-limit, async-ratelimiter and koa-ratelimit
// decide the same on both, in each version that sends a script of its own.
import { createRequire } from 'node:module';
import { createClient } from 'redis';
import { rateLimit } from 'express-rate-limit';
import RedisStore6 from 'rate-limit-redis';
import RedisStore5 from 'rate-limit-redis-5';
import RedisStore4 from 'rate-limit-redis-4';
import RedisStore3 from 'rate-limit-redis-3';
import { connect, fail, random, same } from './compare.js';

const require = createRequire(import.meta.url);
const addresses = process.argv.slice(2, 4);
const clients = addresses.map(connect);
const hour = 3_600_000;
const next = random(3);
let compared = 0;

// compare asks both the same, one after the other; times are compared in hours.
async function compare(what, calls, call) {
  const replies = [];
  for (const one of calls) {
    replies.push(plain(await call(one).catch((e) => fail(`${what}: ${e.stack}`))));
  }
  same(what, ...replies);
  compared++;
}

function plain(v) {
  if (v instanceof Date) return Math.round((v - Date.now()) / hour * 100) / 100;
  if (typeof v === 'number' && v > 10_000) return `${Math.round(v / hour * 100) / 100} h`;
  if (Array.isArray(v)) return v.map(plain);
  return v && typeof v === 'object' ? Object.fromEntries(Object.entries(v).map(([k, of]) => [k, plain(of)])) : v;
}

// rate-limit-redis, alone and below express-rate-limit, with ioredis and with node-redis.
const nodeRedis = await Promise.all(addresses.map(async (address) => createClient({ url: `redis://${address}` }).connect()));
const senders = (withNodeRedis) => withNodeRedis ? nodeRedis.map((c) => (...args) => c.sendCommand(args)) : clients.map((c) => (...args) => c.call(...args));
for (const [version, RedisStore, withNodeRedis, more] of [
  [3, RedisStore3, false, {}], [3, RedisStore3, false, { resetExpiryOnChange: true }], [4, RedisStore4, true, {}], [5, RedisStore5, false, {}], [5, RedisStore5, true, { resetExpiryOnChange: true }], [6, RedisStore6, true, {}],
]) {
  const prefix = `express:${version}:${compared}:`;
  const stores = senders(withNodeRedis).map((sendCommand) => new RedisStore({ sendCommand, prefix, ...more }));
  for (const store of stores) await store.init({ windowMs: 2 * hour });
  for (let i = 0; i < 150; i++) {
    const key = `user${next(4)}`;
    const [name, call] = [
      ['increment', (s) => s.increment(key)],
      ['increment', (s) => s.increment(key)],
      ['decrement', (s) => s.decrement(key)],
      ['get', async (s) => { const of = await s.get?.(key); return of?.totalHits ? of : null; }],
      ['reset', async (s) => i % 7 ? null : s.resetKey(key)],
      ['endless', async (s) => i % 5 ? null : clients[stores.indexOf(s)].persist(prefix + key)],
    ][next(6)];
    await compare(`rate-limit-redis ${version} ${JSON.stringify(more)}: ${name} ${key}, step ${i}`, stores, call);
  }
}
const limits = senders(true).map((sendCommand) => rateLimit({
  windowMs: hour, limit: 3, validate: false, legacyHeaders: false, standardHeaders: 'draft-8', keyGenerator: (req) => req.ip, store: new RedisStore6({ sendCommand, prefix: 'express:' }),
  handler: (_, res) => res.done('limited'),
}));
for (let i = 0; i < 40; i++) {
  const ip = `10.0.0.${next(5)}`;
  await compare(`express-rate-limit: ${ip}, step ${i}`, limits, (limit) => new Promise((done, failed) => {
    const fields = {};
    const res = { headersSent: false, setHeader: (name, value) => { fields[name] = String(value).replace(/t=\d+/, 't'); }, append: () => {}, done: (what) => done([what, fields]) };
    Promise.resolve(limit({ ip, method: 'GET' }, res, (e) => e ? failed(e) : done(['passed', fields]))).catch(failed);
  }));
}

// @fastify/rate-limit: its store, as its plugin uses it.
for (const [version, name] of [[9, 'fastify-rate-limit-9'], [10.1, 'fastify-rate-limit-10.1'], [10.2, 'fastify-rate-limit-10.2'], [11, '@fastify/rate-limit']]) {
  const Store = require(`${name}/store/RedisStore.js`);
  for (const [continues, backs] of [[false, false], [true, false], [false, true]]) {
    const prefix = `fastify:${version}:${continues}:${backs}:`;
    const fresh = addresses.map(connect); // the store leaves its command with the client
    const stores = fresh.map((c) => version < 10 ? new Store(c, hour, continues, prefix) : version < 10.2 ? new Store(continues, c, prefix) : new Store(continues, backs, c, prefix));
    for (let i = 0; i < 60; i++) {
      const key = `user${next(4)}`;
      const call = (method, ...args) => (s) => new Promise((done, failed) => s[method](key, (e, of) => e ? failed(e) : done(of), ...args));
      const asks = version < 10 ? call('incr', 3, 2) : version > 10.5 && i % 4 === 0 ? call('read') : call('incr', hour, 3);
      await compare(`${name} ${prefix} ${key}, step ${i}`, stores, asks);
    }
    fresh.forEach((c) => c.disconnect());
  }
}

// async-ratelimiter and koa-ratelimit, at times of this program's choice.
for (const [name, peeks] of [['async-ratelimiter-1.5', false], ['async-ratelimiter', true]]) {
  const Limiter = require(name);
  const microtime = require(`${name}/src/microtime.js`);
  let now = Date.now();
  microtime.now = () => now;
  const fresh = addresses.map(connect);
  const limiters = fresh.map((db) => new Limiter({ db, max: 5, duration: hour, namespace: name }));
  for (let i = 0; i < 300; i++) {
    now += next(4) ? next(hour / 4) + next(1000) / 1000 : 0;
    const id = `user${next(3)}`, options = { id, ...(next(4) ? {} : { max: 1 + next(8) }), ...(next(6) ? {} : { duration: hour / 2 }), peek: peeks && next(3) === 0 };
    await compare(`${name}: ${JSON.stringify(options)}, step ${i}`, limiters, async (l) => { const of = await l.get(options); return { ...of, reset: `at ${of.reset}` }; });
  }
  if (peeks) {
    const koa = fresh.map((db) => require('koa-ratelimit')({ driver: 'redis', db, duration: hour, max: 3, id: (ctx) => ctx.ip, throw: false }));
    for (let i = 0; i < 40; i++) {
      now += next(hour / 8);
      const ip = `10.0.1.${next(3)}`;
      await compare(`koa-ratelimit: ${ip}, step ${i}`, koa, async (limit) => {
        const fields = {}, ctx = { ip, state: {}, set: (a, b) => typeof a === 'string' || Object.assign(fields, a) };
        let passed = false;
        await limit(ctx, async () => { passed = true; });
        return [passed, ctx.status, fields['X-RateLimit-Remaining'], `at ${fields['X-RateLimit-Reset']}`];
      });
    }
  }
  fresh.forEach((c) => c.disconnect());
}

console.log(`compared ${compared} calls`);
clients.forEach((c) => c.disconnect());
nodeRedis.forEach((c) => c.destroy());
