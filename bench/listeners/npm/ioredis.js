// node ioredis.js WEIR: ioredis connects, and counts and limits as its users do.
import assert from 'node:assert/strict';
import { connect } from './compare.js';

const c = connect(process.argv[2]);
assert.equal(await c.ping(), 'PONG');
assert.deepEqual(await c.pipeline().incr('window').expire('window', 60).ttl('window').exec(), [[null, 1], [null, 1], [null, 60]]);
assert.deepEqual(await c.multi().incrby('window', 4).get('window').exec(), [[null, 5], [null, '5']]);
assert.equal(await c.set('n', 7, 'EX', 60, 'NX'), 'OK');
assert.deepEqual(await c.mget('n', 'nothing'), ['7', null]);
assert.equal(await c.del('n'), 1);
assert.equal(await c.call('HIT', 'page', 3), 3);
assert.deepEqual((await c.call('COUNT', 'page', '5m')).slice(0, 6), ['lower', 3, 'estimate', 3, 'upper', 3]);
assert.deepEqual((await c.call('CL.THROTTLE', 'user', 15, 30, 60)).slice(0, 3), [0, 16, 15]);
assert.deepEqual((await c.call('ALLOW', 'user', 'LIMIT', 2, 'PER', '1m')).slice(2, 4), ['remaining', 1]);
// It goes on after a SELECT that was refused, and must not use the counters of database 0 then.
const elsewhere = connect(process.argv[2], { db: 1 });
elsewhere.on('error', () => {});
await assert.rejects(elsewhere.incr('window'), /DB index is out of range/);
elsewhere.disconnect();
c.defineCommand('unknown', { numberOfKeys: 0, lua: 'return 1' });
await assert.rejects(c.unknown(), /ERR Weir runs no Lua/);
const many = await Promise.all(Array.from({ length: 1000 }, () => c.call('HIT', 'many')));
assert.equal(many.length, 1000);
assert.equal((await c.call('COUNT', 'many', '5m'))[3], 1000);
c.disconnect();
