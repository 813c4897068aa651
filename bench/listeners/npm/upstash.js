// node upstash.js WEIR REDIS: @upstash/ratelimit decides the same on both, in each version that sends scripts of its own, at times of this program's choice. Its client
// speaks HTTP, so ioredis stands in for it; Debian's Redis does not know the flag in the scripts' first line.
import { Ratelimit as Ratelimit22 } from '@upstash/ratelimit';
import { Ratelimit as Ratelimit21 } from 'upstash-ratelimit-2.1';
import { Ratelimit as Ratelimit208 } from 'upstash-ratelimit-2.0.8';
import { Ratelimit as Ratelimit207 } from 'upstash-ratelimit-2.0.7';
import { Ratelimit as Ratelimit206 } from 'upstash-ratelimit-2.0.6';
import { Ratelimit as Ratelimit12 } from 'upstash-ratelimit-1.2';
import { connect, random, same } from './compare.js';

const clients = process.argv.slice(2, 4).map(connect);
const [weir, redis] = clients;

const speaks = (client, adapted) => ({
  evalsha: (sha, keys, args) => client.evalsha(sha, keys.length, ...keys, ...args),
  eval: (text, keys, args) => client.eval(adapted(text), keys.length, ...keys, ...args),
  scriptLoad: (text) => client.script('LOAD', adapted(text)),
  set: (key, value) => client.set(key, value),
  get: (key) => client.get(key),
});
const servers = [speaks(weir, (text) => text), speaks(redis, (text) => text.replace(/^#!.*\n/, ''))];

const hour = 3_600_000;
let now = Math.floor(Date.now() / hour) * hour;
Date.now = () => now;

const next = random(2);
let compared = 0;
for (const [version, Ratelimit] of [['1.2', Ratelimit12], ['2.0.6', Ratelimit206], ['2.0.7', Ratelimit207], ['2.0.8', Ratelimit208], ['2.1', Ratelimit21], ['2.2', Ratelimit22]]) {
  for (const [name, limiter] of [
    ['sliding', () => Ratelimit.slidingWindow(10, '1 h')],
    ['fixed', () => Ratelimit.fixedWindow(10, '1 h')],
    ['bucket', () => Ratelimit.tokenBucket(3, '20 m', 10)],
    ['cached', () => Ratelimit.cachedFixedWindow(10, '1 h')],
  ]) {
    const cached = name === 'cached';
    for (const dynamicLimits of cached || !Ratelimit.prototype.setDynamicLimit && !new Ratelimit({ redis: servers[0], limiter: limiter() }).setDynamicLimit ? [false] : [false, true]) {
      const limits = servers.map((redis) => new Ratelimit({ redis, limiter: limiter(), prefix: `upstash:${version}:${name}:${dynamicLimits}`, dynamicLimits, ephemeralCache: cached ? new Map() : false, timeout: 0 }));
      for (let i = 0; i < (version === '2.2' ? 700 : 200); i++) {
        now += next(hour / 20);
        const key = `user${next(3)}`, rate = 1 + next(4), most = 5 + next(10);
        const [what, call] = [
          ['limit', (l) => l.limit(key)],
          ['limit', (l) => l.limit(key)],
          ['limit', (l) => l.limit(key, { rate })],
          ['refund', (l) => l.limit(key, { rate: -1 })],
          ['remaining', (l) => l.getRemaining(key)],
          ['dynamic', (l) => dynamicLimits ? l.setDynamicLimit({ limit: most }) : undefined],
          ['reset', (l) => i % 5 === 0 ? l.resetUsedTokens(key) : undefined],
        ][next(7)];
        const replies = [];
        for (const l of limits) {
          const reply = await call(l);
          await reply?.pending;
          if (reply) delete reply.pending;
          replies.push(reply);
        }
        same(`@upstash/ratelimit ${version}, ${name}, dynamic ${dynamicLimits}: ${what} ${key}, step ${i}`, ...replies);
        compared++;
      }
    }
  }
}
console.log(`compared ${compared} calls`);
clients.forEach((c) => c.disconnect());
