import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, DatabaseError } from 'pg';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';

interface Schema {
  properties?: Record<string, Schema>;
  items?: Schema;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  maxItems?: number;
}

const API = JSON.parse(readFileSync(join(import.meta.dirname, '../../../openapi.json'), 'utf8')) as {
  components: { schemas: Record<string, Schema> };
};

let database: TestDatabase;
let client: Client;

beforeAll(async () => {
  database = await createTestDatabase();
  client = new Client({ connectionString: database.superuserUrl });
  await client.connect();
});

afterAll(async () => {
  await client.end();
  await database.drop();
});

describe('the bounds of a field are the same in the API document and in its column:', () => {
  it.each([
    ['PlaceOrderBody.externalRef', 'orders.external_ref'],
    ['CustomerBody.ref', 'orders.customer_ref'],
    ['LineBody.sku', 'order_lines.sku'],
    ['LineBody.name', 'order_lines.name'],
    ['TransitionBody.reason', 'order_status_history.reason'],
    ['RefundBody.reason', 'refunds.reason'],
    ['CreateUserBody.subject', 'users.subject'],
    ['CreateUserBody.displayName', 'users.display_name'],
    ['CreateApiKeyBody.name', 'api_keys.name'],
  ])('the length of %s and %s', async (field, column) => {
    const { minLength = Number.NaN, maxLength = Number.NaN } = schemaOf(field);
    const lengths = [minLength - 1, minLength, maxLength, maxLength + 1];
    // A character beyond the first 65536 counts as one here and there.
    const texts = lengths.map((length) => '🫖'.repeat(length));
    expect(await taken(column, texts)).toEqual([false, true, true, false]);
  });

  it.each([
    ['LineBody.quantity', 'order_lines.quantity'],
    ['LineBody.unitPrice', 'order_lines.unit_price'],
    ['LineBody.taxRatePpm', 'order_lines.tax_rate_ppm'],
  ])('the range of %s and %s', async (field, column) => {
    const { minimum = Number.NaN, maximum = Number.NaN } = schemaOf(field);
    expect(await taken(column, [minimum - 1, minimum, maximum, maximum + 1])).toEqual([false, true, true, false]);
  });

  it('the number of lines and order_lines.line_no', async () => {
    const { maxItems = Number.NaN } = schemaOf('PlaceOrderBody.lines');
    expect(await taken('order_lines.line_no', [0, 1, maxItems, maxItems + 1])).toEqual([false, true, true, false]);
  });

  it.each([
    ['PlaceOrderBody.channel', 'orders.channel', ['web', 'w.e_b-1', 'a'.repeat(32), 'a'.repeat(33), '', '-web', 'Web']],
    ['PlaceOrderBody.currency', 'orders.currency', ['EUR', 'eur', 'EURO', 'EU', 'E R', '']],
  ])('the form of %s and %s', async (field, column, texts) => {
    const { pattern = '' } = schemaOf(field);
    expect(await taken(column, texts)).toEqual(texts.map((text) => new RegExp(pattern).test(text)));
  });

  it('the form of a role and users.roles', async () => {
    const { items, maxItems = Number.NaN } = schemaOf('CreateUserBody.roles');
    const roles = ['operator', 'a', 'risk-2_x', 'a'.repeat(63), 'a'.repeat(64), '', 'Risk', '2x'];
    const lists = roles.map((role) => [role]);
    expect(await taken('users.roles', lists)).toEqual(roles.map((role) => new RegExp(items?.pattern ?? '').test(role)));
    const many = Array.from({ length: maxItems }, (_, index) => `role${index}`);
    expect(await taken('users.roles', [many, [...many, 'more']])).toEqual([true, false]);
  });

  it.each([
    ['PlaceOrderBody.shipping', 'orders.shipping'],
    ['AuthorizeBody.amount', 'payments.amount'],
    ['RefundBody.amount', 'refunds.amount'],
  ])('a column takes every amount of %s: %s', async (field, column) => {
    const { minimum = Number.NaN, maximum = Number.NaN } = schemaOf(field);
    expect(await taken(column, [minimum, maximum])).toEqual([true, true]);
  });
});

/** @param field as in `LineBody.sku` */
function schemaOf(field: string): Schema {
  const [name = '', property = ''] = field.split('.');
  const found = API.components.schemas[name]?.properties?.[property];
  if (!found) throw new Error(`The document has no ${field}`);
  return found;
}

const CHECK_VIOLATION = '23514';

/**
 * Which of these values a column takes, by its type and by the rules that ask for it alone.
 *
 * @param column as in `orders.channel`
 */
async function taken(column: string, values: readonly unknown[]): Promise<boolean[]> {
  const [table = '', name = ''] = column.split('.');
  const { rows } = await client.query<{ type: string; checks: string[] }>(
    `SELECT format_type(a.atttypid, a.atttypmod) AS type,
       array(SELECT pg_get_constraintdef(c.oid) FROM pg_constraint c
             WHERE c.conrelid = a.attrelid AND c.contype = 'c' AND c.conkey = ARRAY[a.attnum]) AS checks
     FROM pg_attribute a WHERE a.attrelid = ('waybill.' || $1)::regclass AND a.attname = $2`,
    [table, name],
  );
  const [found] = rows;
  if (!found) throw new Error(`There is no column ${column}`);
  await client.query(`CREATE TEMP TABLE one_column (${[`${name} ${found.type}`, ...found.checks].join(', ')})`);
  try {
    const results: boolean[] = [];
    for (const value of values) results.push(await isTaken(value));
    return results;
  } finally {
    await client.query('DROP TABLE one_column');
  }
}

async function isTaken(value: unknown): Promise<boolean> {
  try {
    await client.query('INSERT INTO one_column VALUES ($1)', [value]);
    return true;
  } catch (error) {
    if (error instanceof DatabaseError && error.code === CHECK_VIOLATION) return false;
    throw error;
  }
}
