import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { type Chapter, expectAnswer, PromiseBroken } from './storyteller.js';

/** The worst moment of a payment: the provider has done it, and its answer never comes. */
export const paymentThatTimesOut: Chapter = {
  title: 'A payment that times out',
  async play({ api, say, order, retries, server }) {
    const total = order.body['expectedTotal'];
    say.does('The shop holds 35.82 EUR on her card. The provider does it, but its answer is lost on the way.');
    const before = retries.length;
    const held = await api.post(
      `/v1/orders/${order.id}/payments`,
      { paymentMethod: 'tok_timeout_after' },
      randomUUID(),
    );
    if (held.status === 402) {
      say.does('(The provider here is not the simulated one, and nobody can tell it to be late.)');
      return;
    }
    const { body: payment } = expectAnswer(held, 201);
    const [firstAnswer] = retries.slice(before);
    if (firstAnswer === undefined) throw new PromiseBroken('the provider was to time out, and did not');
    say.sees(`Nobody guesses: ${firstAnswer}`);
    say.does('The shop sends it again, and then takes the money.');
    const path = `/v1/payments/${String(payment['id'])}`;
    const { body: paid } = expectAnswer(await api.post(`${path}/captures`, {}, randomUUID()), 201);
    if (paid['captured'] !== total) throw new PromiseBroken(`${String(paid['captured'])} was captured, not ${total}`);
    if (server) await compareBooks(server.databaseUrl, order.id, Number(total));
    say.sees(`Held once, taken once: ${total} cents${server ? ", and the provider's books agree" : ''}.`);
  },
};

/** The simulated provider keeps books of its own, which no payment's transaction touches. */
async function compareBooks(databaseUrl: string, orderId: string, total: number): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl, application_name: 'waybill demo' });
  await client.connect();
  try {
    const { rows } = await client.query<{ entry: string }>(
      `SELECT operation || ' ' || amount AS entry FROM simulated_provider.ledger
       WHERE metadata ->> 'waybill_order' = $1 ORDER BY id`,
      [orderId],
    );
    const books = rows.map(({ entry }) => entry).join(', ');
    const expected = `authorize ${total}, capture ${total}`;
    if (books !== expected) throw new PromiseBroken(`the provider's books say "${books}", not "${expected}"`);
  } finally {
    await client.end();
  }
}
