import { createHash, randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { median } from '../../bench/report/row.js';
import { inTransaction, withClient } from '../support/sql.js';

/*
 * What claiming and replaying a key costs, with many old rows against none. The two sides alternate, since the machine is
 * shared; a claim is rolled back, so that the disk's mood is no part of the figures.
 */

export interface ClaimCost {
  rows: number;
  /** Medians in microseconds. */
  claim: { empty: number; full: number; ratio: number };
  replay: { empty: number; full: number; ratio: number };
}

export interface ClaimSide {
  superuserUrl: string;
  appUrl: string;
}

const ROUNDS = 6;
const PER_ROUND = 500;
const HASH = createHash('sha256').update('request').digest();
const REPLAYED = 'replayed-again-and-again';

/** @param rows finished keys, of yesterday, that are put into the full side first */
export async function measureClaimCost(empty: ClaimSide, full: ClaimSide, rows: number): Promise<ClaimCost> {
  await fill(full, rows);
  for (const side of [empty, full]) await storeOne(side);
  return withClient(empty.appUrl, (emptyClient) =>
    withClient(full.appUrl, async (fullClient) => {
      const samples = { claim: { empty: [0], full: [0] }, replay: { empty: [0], full: [0] } };
      // The first round warms up and is thrown away.
      for (let round = 0; round <= ROUNDS; round += 1) {
        for (const kind of ['claim', 'replay'] as const) {
          if (round === 1) Object.assign(samples[kind], { empty: [], full: [] });
          samples[kind].empty.push(...(await time(emptyClient, kind)));
          samples[kind].full.push(...(await time(fullClient, kind)));
        }
      }
      return { rows, claim: compare(samples.claim), replay: compare(samples.replay) };
    }),
  );
}

async function fill({ superuserUrl }: ClaimSide, rows: number): Promise<void> {
  const chunk = 250_000;
  for (let from = 0; from < rows; from += chunk) {
    await inTransaction(superuserUrl, { tenant: 1, actor: randomUUID() }, async (client) => {
      await client.query(
        `INSERT INTO waybill.idempotency_keys (tenant_id, idempotency_key, request_hash, status, resource, response_status,
                                               response_headers, response_body, created_at, expires_at)
         SELECT 1, gen_random_uuid(), $3, 'completed', 'order/' || n, 201, '{"content-type": "application/json"}',
                convert_to(repeat('x', 64), 'UTF8'), now() - interval '23 hours', now() + n * interval '1 millisecond'
         FROM generate_series($1::int, $2::int) n`,
        [from + 1, Math.min(from + chunk, rows), HASH],
      );
    });
  }
  await withClient(superuserUrl, (client) => client.query('VACUUM ANALYZE waybill.idempotency_keys'));
}

async function storeOne({ appUrl }: ClaimSide): Promise<void> {
  await withClient(appUrl, async (client) => {
    await client.query('BEGIN');
    await claim(client, REPLAYED);
    await client.query(`SELECT waybill.complete_key(1, $1, $2, NULL, 201::smallint, '{}', 'x', NULL, '1 day')`, [
      REPLAYED,
      HASH,
    ]);
    await client.query('COMMIT');
  });
}

async function time(client: Client, kind: 'claim' | 'replay'): Promise<number[]> {
  const samples: number[] = [];
  for (let index = 0; index < PER_ROUND; index += 1) {
    await client.query('BEGIN');
    const began = process.hrtime.bigint();
    const outcome = await claim(client, kind === 'claim' ? randomUUID() : REPLAYED);
    samples.push(Number(process.hrtime.bigint() - began) / 1000);
    await client.query('ROLLBACK');
    const expected = kind === 'claim' ? 'claimed' : 'replay';
    if (outcome !== expected) throw new Error(`claim_key answered ${outcome}, not ${expected}`);
  }
  return samples;
}

const ACTOR = randomUUID();

async function claim(client: Client, key: string): Promise<string | undefined> {
  const result = await client.query<{ outcome: string }>({
    name: 'claim',
    text: `SELECT outcome FROM waybill.claim_key(1, $1, '{operator}', 'cost', $2, $3, NULL, NULL)`,
    values: [ACTOR, key, HASH],
  });
  return result.rows[0]?.outcome;
}

function compare({ empty, full }: { empty: number[]; full: number[] }) {
  const [a, b] = [median(empty), median(full)];
  return { empty: Math.round(a), full: Math.round(b), ratio: Math.round((b / a) * 100) / 100 };
}
