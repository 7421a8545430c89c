import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { authorization, createRequests } from '../load/orders.js';
import type { BenchDatabase } from '../world/server.js';
import { startService } from '../world/service.js';

const REQUESTS = 50;

/**
 * Counts how often the service waits for PostgreSQL in a create: a proxy between the two counts the turns from sending to
 * receiving. Statements that leave together are one.
 */
export async function countRoundTrips(database: BenchDatabase): Promise<number> {
  let turns = 0;
  const target = new URL(database.appUrl);
  const proxy = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    let isAsking = false;
    client.on('data', (bytes: Buffer) => {
      if (!isAsking) turns += 1;
      isAsking = true;
      upstream.write(bytes);
    });
    upstream.on('data', (bytes: Buffer) => {
      isAsking = false;
      client.write(bytes);
    });
    client.on('close', () => upstream.destroy()).on('error', () => upstream.destroy());
    upstream.on('close', () => client.destroy()).on('error', () => client.destroy());
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const address = proxy.address();
  const url = new URL(database.appUrl);
  url.port = String(typeof address === 'object' && address ? address.port : 0);
  const service = await startService({ ...database, appUrl: url.href });
  const place = async (count: number): Promise<void> => {
    for (const request of createRequests(count, authorization(database.tenant.keys.operator))) {
      const answer = await fetch(service.baseUrl + request.path, request);
      if (answer.status !== 201) throw new Error(`${answer.status} ${await answer.text()}`);
      await answer.arrayBuffer();
    }
  };
  try {
    await place(5); // connects, prepares, and signs in
    turns = 0;
    await place(REQUESTS);
    return turns / REQUESTS;
  } finally {
    await service.stop();
    proxy.close();
  }
}
