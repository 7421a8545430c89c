import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Pool } from 'pg';
import { CallRecoverer } from '../../../src/idempotency/index.js';
import { PaymentProviders } from '../../../src/payments/providers/payment-providers.js';
import { SimulatedProvider } from '../../../src/payments/providers/simulated-provider.js';
import { type Answer, ApiClient } from '../../support/api-client.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type CrashPoint, CrashStage } from '../../support/crash-stage.js';
import { docsSection } from '../../support/docs-section.js';
import { move, place } from '../../support/orders.js';
import {
  authorize,
  expectCreated,
  passTime,
  type Payment,
  readPayment,
  step,
  TOTAL,
  unfinishedKeys,
} from '../../support/payments.js';

/*
 * Every moment at which the process can die × everything a provider does × what the client does next, for holding money
 * and for taking it. In each cell the provider's books, the API and the audit must agree, and nothing is done twice.
 */

const CRASHES: readonly (CrashPoint | { name: string; point: null })[] = [
  { name: 'no crash', point: null },
  { name: 'key claimed', point: 'claim.after', occurrence: 1 },
  { name: 'attempt written', point: 'write.after', occurrence: 1 },
  { name: 'before the first COMMIT', point: 'commit.before', occurrence: 1 },
  { name: 'after the first COMMIT', point: 'commit.after', occurrence: 1 },
  { name: 'before the call', point: 'call.before', occurrence: 1 },
  { name: 'after the call', point: 'call.after', occurrence: 1 },
  { name: 'before the second COMMIT', point: 'commit.before', occurrence: 2 },
  { name: 'after the second COMMIT', point: 'commit.after', occurrence: 2 },
];

const BEHAVIOURS = [
  { name: 'approves', token: 'approve' },
  { name: 'declines', token: 'declined' },
  { name: 'is slow', token: 'slow' },
  { name: 'times out before', token: 'timeout_before' },
  { name: 'times out after', token: 'timeout_after' },
  { name: '500 before', token: 'error_before' },
  { name: '500 after', token: 'error_after' },
  { name: '409', token: 'conflict' },
  { name: '429', token: 'rate_limited' },
] as const;

const CLIENTS = ['nothing', 'same key', 'new key', 'cancel'] as const;
type Client = (typeof CLIENTS)[number];

const OPERATIONS = ['authorize', 'capture'] as const;
type Operation = (typeof OPERATIONS)[number];

interface Cell {
  operation: Operation;
  crash: (typeof CRASHES)[number];
  token: string;
  client: Client;
}

let service: TestApp;
let other: TestApp;
let superuser: Pool;
let stage: CrashStage;

beforeAll(async () => {
  service = await startTestApp();
  other = await startTestApp({ database: service.database });
  for (const { app } of [service, other]) {
    await app.get(CallRecoverer, { strict: false }).stop(); // the cells say when it runs
    const simulated = app.get(PaymentProviders, { strict: false }).get('simulated');
    if (simulated instanceof SimulatedProvider) simulated.patience = { slowness: 5, silence: 5 };
  }
  superuser = new Pool({ connectionString: service.database.superuserUrl, max: 2 });
  stage = new CrashStage(superuser);
});
afterAll(async () => {
  stage.close();
  await superuser.end();
  await other.close();
  await service.close();
});

/** The service that dies, and the one that is there afterwards; starting the second one renewed the keys of both. */
const dying = () => new ApiClient(service.baseUrl, other.tenants[0].keys.operator);
const living = () => other.as('operator');

describe.each(OPERATIONS)('%s, whatever dies, whatever the provider does, whatever the client does', (operation) => {
  const lines: string[] = [];

  it.each(CRASHES)('crash: $name', async (crash) => {
    for (const { name, token } of BEHAVIOURS) {
      const results: string[] = [];
      for (const client of CLIENTS) {
        results.push(await play({ operation, crash, token: tokenOf(operation, token), client }));
      }
      lines.push(`| ${crash.name} | ${name} | ${results.join(' | ')} |`);
    }
  });

  it('is what docs/payments.md shows', async () => {
    const head = `| process dies | provider | client: ${CLIENTS.join(' | ')} |`;
    const found = [head, `| --- | --- ${'| --- '.repeat(CLIENTS.length)}|`, ...lines].join('\n');
    const shown = await docsSection('payments.md', `crash table ${operation}`, found);
    expect(normalised(shown)).toEqual(normalised(found));
  });
});

function tokenOf(operation: Operation, token: string): string {
  return operation === 'authorize' || token === 'approve' ? `tok_${token}` : `tok_capture_${token}`;
}

/** Prettier aligns tables. */
function normalised(table: string): string[] {
  return table
    .split('\n')
    .map((line) =>
      line
        .replaceAll(/\s*\|\s*/g, '|')
        .replaceAll(/-{3,}/g, '---')
        .trim(),
    )
    .filter((line) => line !== '');
}

async function play(cell: Cell): Promise<string> {
  const order = await place(living());
  const held = cell.operation === 'capture' ? expectCreated(await authorize(living(), order.id, cell.token)) : null;
  const ask = (client: ApiClient, key: string): Promise<Answer<Payment>> =>
    held
      ? step(client, held.id, 'captures', {}, { 'idempotency-key': key })
      : authorize(client, order.id, cell.token, {}, { 'idempotency-key': key });

  const key = randomUUID();
  const answers = [await first(cell, () => ask(dying(), key))];
  if (cell.client === 'same key') answers.push(await retry(() => ask(living(), key)));
  if (cell.client === 'new key') answers.push((await ask(living(), randomUUID())).status);
  if (cell.client === 'cancel') answers.push((await move(living(), order.id, 'canceled')).status);
  await finishWhatIsOpen();
  stage.clear();

  const times = await agreement(cell, order.id);
  return `${times}×: ${answers.join(' → ')}`;
}

/** The first answer, or that there was none. */
async function first({ crash }: Cell, ask: () => Promise<Answer>): Promise<number | '✗'> {
  if (crash.point === null) return (await ask()).status;
  const crashed = stage.arm(crash).then(() => null);
  const answer = ask().catch(() => null);
  const given = await Promise.race([answer, crashed]);
  stage.disarm();
  return given === null ? '✗' : given.status;
}

/** Repeats with the same key, as long as the answer is that the result isn't known; time goes by in between. */
async function retry(ask: () => Promise<Answer>): Promise<number> {
  for (let attempt = 1; attempt <= 5; attempt += 1) {
    const { status, body } = await ask();
    const code = (body as { code?: string } | undefined)?.code;
    if (status !== 503 && code !== 'idempotency-key-in-flight') return status;
    await passTime(superuser);
  }
  throw new Error('the same key gives no end result');
}

async function finishWhatIsOpen(): Promise<void> {
  const recoverer = other.app.get(CallRecoverer, { strict: false });
  for (let round = 1; round <= 5 && (await unfinishedKeys(superuser)) > 0; round += 1) {
    await passTime(superuser);
    await recoverer.recover();
  }
  expect(await unfinishedKeys(superuser)).toBe(0);
}

type Amounts = Pick<Payment, 'status' | 'authorized' | 'captured'>;

/** The books, the API and the audit say the same of an order. Returns how often the operation was really done. */
async function agreement({ operation }: Cell, orderId: string): Promise<number> {
  const { booked, audited } = await factsOf(orderId);
  const shown = await Promise.all(Object.keys(audited).map((id) => readPayment(living(), id)));
  const sum = (of: readonly Amounts[], field: 'authorized' | 'captured') =>
    of.reduce((total, payment) => total + payment[field], 0);
  const snapshots = Object.values(audited);
  expect({
    api: { authorize: sum(shown, 'authorized'), capture: sum(shown, 'captured') },
    audit: { authorize: sum(snapshots, 'authorized'), capture: sum(snapshots, 'captured') },
  }).toEqual({ api: booked, audit: booked });
  expect(shown.map(({ status }) => status)).toEqual(snapshots.map(({ status }) => status));
  expect(shown.map(({ status }) => status)).not.toContainEqual(expect.stringMatching(/ing$/));
  // Whoever finished it, the recoverer too: each event names the key of the request that it came of.
  const { rows: nameless } = await superuser.query(
    `SELECT e.type FROM audit.events e JOIN waybill.payments p ON e.stream = 'payment/' || p.id
     WHERE p.order_id = $1 AND e.body::json ->> 'keyDigest' IS NULL`,
    [orderId],
  );
  expect(nameless).toEqual([]);
  const times = booked[operation] / TOTAL;
  expect([0, 1]).toContain(times);
  const { status } = (await living().get<{ status: string }>(`/v1/orders/${orderId}`)).body;
  expect(status === 'canceled' && shown.some((payment) => !['declined', 'voided'].includes(payment.status))).toBe(
    false,
  );
  return times;
}

/** What the provider did for an order, and its payments as their last events have them, oldest first. */
async function factsOf(
  orderId: string,
): Promise<{ booked: Record<Operation, number>; audited: Record<string, Amounts> }> {
  const { rows: ledger } = await superuser.query<{ operation: Operation; amount: string }>(
    `SELECT operation, sum(amount) AS amount FROM simulated_provider.ledger
     WHERE metadata ->> 'waybill_order' = $1 GROUP BY operation`,
    [orderId],
  );
  const { rows: events } = await superuser.query<{ id: string; snapshot: Amounts }>(
    `SELECT p.id, (SELECT e.body::jsonb -> 'snapshot' FROM audit.events e
                   WHERE e.tenant_id = 1 AND e.stream = 'payment/' || p.id ORDER BY e.version DESC LIMIT 1) AS snapshot
     FROM waybill.payments p WHERE p.tenant_id = 1 AND p.order_id = $1 ORDER BY p.created_at`,
    [orderId],
  );
  const booked = { authorize: 0, capture: 0 };
  for (const { operation, amount } of ledger) booked[operation] = Number(amount);
  return { booked, audited: Object.fromEntries(events.map(({ id, snapshot }) => [id, snapshot])) };
}
