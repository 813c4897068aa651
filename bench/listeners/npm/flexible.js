// node flexible.js WEIR REDIS: rate-limiter-flexible decides the same on both.
import { RateLimiterRedis, RateLimiterValkey } from 'rate-limiter-flexible';
import { connect, fail, random, same } from './compare.js';

const clients = process.argv.slice(2, 4).map(connect);

// Valkey's name for the table of commands is not known to Debian's Redis.
const define = clients[1].defineCommand.bind(clients[1]);
clients[1].defineCommand = (name, { numberOfKeys, lua }) => define(name, { numberOfKeys, lua: lua.replaceAll('server.call', 'redis.call') });

// outcome is what a call came to, but for its time, which is compared apart.
async function outcome(call) {
  try {
    return plain(await call());
  } catch (e) {
    if (e instanceof Error) {
      fail(e.stack);
    }
    return { rejected: plain(e) };
  }
}

function plain(result) {
  if (result === null || typeof result !== 'object') {
    return { is: result };
  }
  const { consumedPoints, remainingPoints, isFirstInDuration, msBeforeNext } = result;
  const hour = 3_600_000;
  return { consumedPoints, remainingPoints, isFirstInDuration, hours: Math.round((msBeforeNext / hour) * 100) / 100 };
}

const seconds = (hours) => hours * 3600;
const next = random(1);
let compared = 0;
for (const [kind, options] of [
  [RateLimiterRedis, { points: 5, duration: seconds(1) }],
  [RateLimiterRedis, { points: 3, duration: seconds(2), blockDuration: seconds(5), execEvenly: false }],
  [RateLimiterValkey, { points: 5, duration: seconds(1) }],
]) {
  const prefix = `flexible:${kind.name}:${options.points}`;
  const limiters = clients.map((storeClient) => new kind({ ...options, storeClient, keyPrefix: prefix }));
  for (let i = 0; i < 1500; i++) {
    const key = `user${next(40)}`, points = 1 + next(3);
    const [name, call] = [
      ['consume', (l) => l.consume(key, points)],
      ['consume', (l) => l.consume(key)],
      ['consume', (l) => l.consume(key)],
      ['get', (l) => l.get(key)],
      ['penalty', (l) => l.penalty(key, points)],
      ['reward', (l) => l.reward(key, points)],
      ['block', (l) => l.block(key, seconds(3))],
      ['set', (l) => l.set(key, points, seconds(4))],
      ['delete', (l) => l.delete(key)],
    ][next(9)];
    const [weir, redis] = [await outcome(() => call(limiters[0])), await outcome(() => call(limiters[1]))];
    same(`${prefix}: ${name} ${key} ${points}, step ${i}`, weir, redis);
    compared++;
  }
}
console.log(`compared ${compared} calls`);
clients.forEach((c) => c.disconnect());
