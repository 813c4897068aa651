// What the programs here share: a client for each server, a generator of numbers, and an end that says what differs.
import Redis from 'ioredis';

// connect takes host:port.
export function connect(address, options) {
  const at = address.lastIndexOf(':');
  return new Redis({ host: address.slice(0, at), port: Number(address.slice(at + 1)), maxRetriesPerRequest: 1, ...options });
}

// random returns whole numbers below n, the same in every run.
export function random(seed) {
  let state = seed;
  return (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
}

const compared = new Map(); // by the first word of what

// At its end the program says how many replies it has compared, by library.
process.on('exit', (code) => {
  for (const [what, n] of code === 0 ? compared : []) {
    console.log(`${what}: ${n} replies are equal`);
  }
});

// same ends the program unless weir's reply is the one that Redis gave.
export function same(what, weir, redis) {
  const library = what.split(/[ :]/)[0];
  compared.set(library, (compared.get(library) ?? 0) + 1);
  const a = JSON.stringify(weir), b = JSON.stringify(redis);
  if (a !== b) {
    fail(`${what}: weir ${a}, redis ${b}`);
  }
}

export function fail(message) {
  console.error(message);
  process.exit(1);
}
