import { randomUUID } from 'node:crypto';
import type { Client } from 'pg';
import { signEvent } from '../../src/payments/providers/simulated-signature.js';
import type { Answer, ApiClient } from './api-client.js';
import type { TestApp } from './app.js';
import { place } from './orders.js';
import { rows, withClient } from './sql.js';

/** What tests read of a payment; the whole of it is `PaymentDto`. */
export interface Payment {
  id: string;
  orderId: string;
  status: string;
  version: number;
  providerRef: string | null;
  amount: number;
  tax: number;
  authorized: number;
  captured: number;
  capturedTax: number;
  refunding: number;
  refunded: number;
  refundedTax: number;
  declineCode: string | null;
  refunds: Refund[];
  conflicts: { event: string; subject: string | null; fact: string | null; amount: number | null; problem: string }[];
  eventHash: string;
}

export interface Refund {
  id: string;
  paymentId: string;
  status: string;
  amount: number;
  tax: number;
  reason: string | null;
  cause: string;
  providerRef: string | null;
  eventHash: string;
}

/** One line of the simulated provider's books. */
export interface LedgerEntry {
  operation: string;
  amount: number;
  reference: string;
}

/** What a payment of the order `orderBody()` comes to. */
export const TOTAL = 3582;

export function authorize(
  client: ApiClient,
  orderId: string,
  paymentMethod = 'tok_approve',
  more: Record<string, unknown> = {},
  headers: Record<string, string> = {},
): Promise<Answer<Payment>> {
  return client.post<Payment>(`/v1/orders/${orderId}/payments`, { paymentMethod, ...more }, headers);
}

/** Asks for a capture, a refund or a void; fails never. */
export function step<Body = Payment>(
  client: ApiClient,
  paymentId: string,
  what: 'captures' | 'refunds' | 'voids',
  body: Record<string, unknown> = {},
  headers: Record<string, string> = {},
): Promise<Answer<Body>> {
  return client.post<Body>(`/v1/payments/${paymentId}/${what}`, what === 'voids' ? undefined : body, headers);
}

/** An order with an authorized payment. */
export async function held(client: ApiClient, token = 'tok_approve'): Promise<Payment> {
  const order = await place(client);
  return expectCreated(await authorize(client, order.id, token));
}

/** An order whose payment was captured. */
export async function taken(client: ApiClient, token = 'tok_approve'): Promise<Payment> {
  const payment = await held(client, token);
  return expectCreated(await step(client, payment.id, 'captures'));
}

export function expectCreated<Body>(answer: Answer<Body>): Body {
  if (answer.status !== 201) throw new Error(`expected 201, not ${answer.status} ${answer.text}`);
  return answer.body;
}

export async function readPayment(client: ApiClient, id: string): Promise<Payment> {
  const answer = await client.get<Payment>(`/v1/payments/${id}`);
  if (answer.status !== 200) throw new Error(`GET /v1/payments/${id}: ${answer.status} ${answer.text}`);
  return answer.body;
}

/** What the provider really did for an order. */
export function ledgerOf(superuserUrl: string, orderId: string): Promise<LedgerEntry[]> {
  return rows<LedgerEntry & Record<string, unknown>>(
    superuserUrl,
    `SELECT operation, amount::int, reference FROM simulated_provider.ledger
     WHERE metadata ->> 'waybill_order' = $1 ORDER BY id`,
    [orderId],
  );
}

/** Makes every unfinished call look that much older, and lets its lease lapse: as if the time had gone by. */
export async function letTimePass(superuserUrl: string, interval = '0 seconds'): Promise<void> {
  await withClient(superuserUrl, (client) => passTime(client, interval));
}

/** The same on a connection that is there already. */
export async function passTime(client: Pick<Client, 'query'>, interval = '0 seconds'): Promise<void> {
  // Triggers off: time that goes by has no tenant.
  await client.query(
    `SET session_replication_role = replica;
     UPDATE waybill.idempotency_keys
     SET lease_until = now() - interval '1 second', call_started_at = call_started_at - interval '${interval}'
     WHERE lease_token IS NOT NULL;
     RESET session_replication_role`,
  );
}

/** Every finished key has expired and was swept. */
export async function forgetKeys(superuserUrl: string): Promise<void> {
  await withClient(superuserUrl, (client) =>
    client.query(
      `SET session_replication_role = replica; DELETE FROM waybill.idempotency_keys WHERE status <> 'processing'`,
    ),
  );
}

/** How many keys are not finished. */
export async function unfinishedKeys(client: Pick<Client, 'query'>): Promise<number> {
  const { rows } = await client.query<{ count: number }>(
    `SELECT count(*)::int AS count FROM waybill.idempotency_keys WHERE status = 'processing'`,
  );
  return rows[0]?.count ?? 0;
}

/** What a simulated event says. */
export interface EventContent {
  subject: 'payment' | 'refund';
  fact: string;
  reference: string;
  amount?: number | null;
  code?: string | null;
}

/** An event of the simulated provider as it would send it, about the attempt with this operation of a payment. */
export async function simulatedEvent(
  service: TestApp,
  paymentId: string,
  operation: string,
  { subject, fact, reference, amount = null, code = null }: EventContent,
  id: string = randomUUID(),
): Promise<{ body: string; headers: Record<string, string> }> {
  const { superuserUrl } = service.database;
  const [attempt] = await rows<{ key: string }>(
    superuserUrl,
    `SELECT provider_key AS key FROM waybill.payment_attempts
     WHERE payment_id = $1 AND operation = $2 ORDER BY started_at DESC LIMIT 1`,
    [paymentId, operation],
  );
  const metadata = { waybill_tenant: '1', waybill_key: attempt?.key ?? '' };
  return signed(service, {
    id,
    type: `${subject}.${fact}`,
    metadata,
    fact: { subject, fact, reference, amount, code },
  });
}

/** Any event, signed as the simulated provider signs. */
export async function signed(
  service: TestApp,
  event: Record<string, unknown>,
  seconds?: number,
): Promise<{ body: string; headers: Record<string, string> }> {
  const [row] = await rows<{ secret: string }>(
    service.database.superuserUrl,
    'SELECT secret FROM simulated_provider.webhook_secret',
  );
  const body = JSON.stringify(event);
  return { body, headers: { 'simulated-signature': signEvent(row?.secret ?? '', body, seconds) } };
}

export function deliver(
  client: ApiClient,
  event: { body: string; headers: Record<string, string> },
  provider = 'simulated',
): Promise<Answer> {
  return client.send('POST', `/v1/payment-webhooks/${provider}`, {
    body: event.body,
    headers: { 'content-type': 'application/json', ...event.headers },
  });
}
