// node hotshots.js STATSD: hot-shots sends counters as its users do, by UDP and by TCP.
import { StatsD } from 'hot-shots';

const [host, port] = process.argv[2].split(':');
for (const protocol of ['udp', 'tcp']) {
  const c = new StatsD({ host, port: Number(port), protocol, prefix: `${protocol}.`, maxBufferSize: 1000, globalTags: { env: 'test' }, errorHandler: (e) => { throw e; } });
  for (let i = 0; i < 1000; i++) c.increment('hits', 1, { route: '/a' });
  // as a sender that samples by itself would: it stands for 40
  c.send(`${protocol}.sampled:10|c|@0.25`);
  c.timing('took', 12);
  c.decrement('hits', 1, { route: '/a' });
  await new Promise((done, failed) => c.close((e) => (e ? failed(e) : done())));
}
