import { type BenchDatabase, query } from '../world/server.js';
import { placeOrderCall } from './orders.js';

/** About as long as the answer of a create. */
const ANSWER = `convert_to(repeat('{"id":"01935c1e-7b3a-7c1d-9f00-000000000001",', 30), 'UTF8')`;
const HEADERS = `'{"content-type": "application/json; charset=utf-8", "etag": "\\"1\\"", "location": "/v1/orders/x"}'`;

/** What pgbench sends: what the service sends for the same request. */
export interface SqlScripts {
  /** A create, all of it in one function. */
  createInOneCall: string;
  /** The same in the statements that the service sends, each a message of its own. */
  createInSeveral: string;
  /** The next of the orders in bench.todo goes on to `confirmed`. */
  transition: string;
  readOne: string;
  list: string;
}

/** Makes the schema `bench` in a database: the service's own SQL, wrapped for pgbench, run as the app role under RLS. */
export async function makeSqlScripts(database: BenchDatabase): Promise<SqlScripts> {
  const who = `1, '${database.operator}'::uuid, '{operator}'::text[], 'bench'`;
  const hash = (key: string): string => `sha256(convert_to(${key}, 'UTF8'))`;
  const claim = (key: string): string => `waybill.claim_key(${who}, ${key}, ${hash(key)}, NULL, NULL)`;
  const complete = (key: string): string =>
    `waybill.complete_key(1, ${key}, ${hash(key)}, NULL, 201::smallint, ${HEADERS}::jsonb, ${ANSWER}, 'order/' || ${key}, interval '24 hours')`;
  await query(
    database.superuserUrl,
    `CREATE SCHEMA bench;
GRANT USAGE ON SCHEMA bench TO waybill_app;
CREATE TABLE bench.todo (n bigint PRIMARY KEY, id uuid NOT NULL);
CREATE SEQUENCE bench.next;
GRANT SELECT ON bench.todo TO waybill_app;
GRANT USAGE ON SEQUENCE bench.next TO waybill_app;
CREATE FUNCTION bench.create_order(OUT placed_at timestamptz, OUT event_hash text) LANGUAGE plpgsql AS $$
DECLARE
  v_ref text := gen_random_uuid();
BEGIN
  PERFORM ${claim('v_ref')};
  SELECT p.placed_at, p.event_hash INTO placed_at, event_hash FROM ${placeOrderCall('v_ref')} p;
  PERFORM ${complete('v_ref')};
END $$;
CREATE FUNCTION bench.transition() RETURNS SETOF waybill.order_details LANGUAGE plpgsql AS $$
DECLARE
  v_key text := gen_random_uuid();
  v_n bigint := nextval('bench.next');
  v_id uuid;
BEGIN
  SELECT t.id INTO STRICT v_id FROM bench.todo t WHERE t.n = v_n;
  PERFORM ${claim('v_key')};
  RETURN QUERY SELECT * FROM waybill.transition_order(1, v_id, 'confirmed', NULL, NULL, NULL);
  PERFORM ${complete('v_key')};
END $$`,
  );
  const document = `SELECT id, number, channel, external_ref, customer_ref, status, version, currency, subtotal, discount, tax, shipping, total, placed_at, updated_at, event_hash, metadata, lines, customer, shipping_address, billing_address FROM waybill.order_details WHERE tenant_id = 1`;
  const context = `SELECT waybill.set_context(1, '${database.operator}', '{operator}', 'bench');`;
  const inTransaction = (begin: string, ...statements: string[]): string =>
    [begin, ...statements, 'COMMIT;'].join('\n');
  const oneLine = (text: string): string => text.replaceAll(/\s+/g, ' ');
  const key = `'b-' || :key`;
  return {
    createInOneCall: 'SELECT * FROM bench.create_order();',
    createInSeveral: [
      '\\set key random(1, 9000000000000000000)',
      'BEGIN;',
      `SELECT ${claim(key)};`,
      oneLine(`SELECT * FROM ${placeOrderCall(`(${key})`)};`),
      `SELECT ${complete(key)};`,
      'COMMIT;',
    ].join('\n'),
    transition: 'SELECT * FROM bench.transition();',
    readOne: inTransaction(
      'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;',
      context,
      `${document} AND id = (SELECT id FROM bench.todo WHERE n = 1);`,
    ),
    list: inTransaction(
      'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;',
      context,
      `${document} ORDER BY placed_at DESC, id DESC LIMIT 51;`,
    ),
  };
}
