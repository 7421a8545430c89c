import { Client, type QueryResultRow } from 'pg';
import type { TestApp } from './app.js';

/** What a transaction says of itself before anything else; see `waybill.set_context`. */
export interface SqlContext {
  tenant: number | null;
  actor: string | null;
  roles?: readonly string[];
  requestId?: string;
}

/** What PostgreSQL said when it refused. */
export interface Refusal {
  code: string;
  message: string;
  hint?: string;
  detail?: string;
}

/** Connects, works, disconnects. */
export async function withClient<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: url, options: '-c timezone=UTC' });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Runs `work` in one transaction of one connection and commits it; without context when that is null. */
export function inTransaction<T>(
  url: string,
  context: SqlContext | null,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  return withClient(url, async (client) => {
    await client.query('BEGIN');
    if (context) await enter(client, context);
    const result = await work(client);
    await client.query('COMMIT');
    return result;
  });
}

export async function enter(client: Client, { tenant, actor, roles = [], requestId = '' }: SqlContext): Promise<void> {
  await client.query('SELECT waybill.set_context($1, $2, $3, $4)', [tenant, actor, roles, requestId]);
}

export async function rows<Row extends QueryResultRow>(url: string, text: string, values: unknown[] = []) {
  return withClient(url, async (client) => (await client.query<Row>(text, values)).rows);
}

/** The refusal that a promise must end in; fails when it is fulfilled. */
export async function refusalOf(promise: Promise<unknown>): Promise<Refusal> {
  try {
    await promise;
  } catch (error) {
    const { code, message, hint, detail } = error as Refusal;
    return { code, message, hint, detail };
  }
  throw new Error('PostgreSQL took it, but should have refused');
}

/** Id of the user whom the demo key of this role belongs to. */
export async function actorOf(service: TestApp, role: string, tenant = 1): Promise<string> {
  const [user] = await rows<{ id: string }>(
    service.database.superuserUrl,
    'SELECT id FROM waybill.users WHERE tenant_id = $1 AND subject = $2',
    [tenant, `demo-${role}`],
  );
  if (!user) throw new Error(`no user demo-${role}`);
  return user.id;
}

/** The context of somebody of the first tenant. */
export async function contextOf(service: TestApp, role: string): Promise<SqlContext> {
  return { tenant: 1, actor: await actorOf(service, role), roles: [role], requestId: 'sql' };
}

const COUNTED = ['orders', 'order_lines', 'order_contacts', 'order_status_history'];

const COUNTS = `SELECT ${COUNTED.map((table) => `(SELECT count(*)::int FROM waybill.${table}) AS ${table}`).join(', ')},
  (SELECT count(*)::int FROM audit.events) AS events`;

/** How many rows there are, all tenants together, in every table that an order writes; as superuser. */
export async function countRows(superuser: string | Client): Promise<Record<string, number>> {
  if (typeof superuser === 'string') return withClient(superuser, countRows);
  const result = await superuser.query<Record<string, number>>(COUNTS);
  return result.rows[0] ?? {};
}
