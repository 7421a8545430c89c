import pg from 'pg';
import { postgresError } from '../../src/database/index.js';
import { type Chapter, PromiseBroken } from './storyteller.js';

/** Who has the database's password needs no API. The rules are in the database, so they hold there too. */
export const goingAroundTheApi: Chapter = {
  title: 'Around the API',
  async play({ say, order, server }) {
    if (!server) {
      say.does('(The database is not at hand here, so nobody tries it by SQL.)');
      return;
    }
    const client = new pg.Client({ connectionString: server.databaseUrl, application_name: 'waybill demo' });
    await client.connect();
    try {
      await attempt(client, server.tenantId, order.id, say.does.bind(say), say.sees.bind(say));
    } finally {
      await client.end();
    }
  },
};

type Line = (text: string) => void;

async function attempt(client: pg.Client, tenantId: number, orderId: string, does: Line, sees: Line): Promise<void> {
  does("Somebody opens psql, with the password of the service: UPDATE orders SET status = 'delivered' …");
  sees(`PostgreSQL refuses: ${await refusal(client, update(orderId))}`);
  does('They say who they are, as the service does, and try again.');
  await client.query('BEGIN');
  await client.query(`SELECT waybill.set_context($1, gen_random_uuid(), '{admin}', 'psql')`, [tenantId]);
  sees(`PostgreSQL refuses: ${await refusal(client, update(orderId))}`);
  await client.query('ROLLBACK');
  does('Then the order itself: DELETE FROM orders …');
  sees(`PostgreSQL refuses: ${await refusal(client, `DELETE FROM waybill.orders WHERE id = '${orderId}'`)}`);
}

function update(orderId: string): string {
  return `UPDATE waybill.orders SET status = 'delivered' WHERE id = '${orderId}'`;
}

async function refusal(client: pg.Client, statement: string): Promise<string> {
  try {
    await client.query(statement);
  } catch (error) {
    const refused = postgresError(error);
    if (refused) return refused.message;
    throw error;
  }
  throw new PromiseBroken(`PostgreSQL took: ${statement}`);
}
