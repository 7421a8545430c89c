import type { ApiClient } from './api-client.js';
import { type Order, orderBody } from './builders.js';
import type { TestApp } from './app.js';
import { contextOf, inTransaction } from './sql.js';

/** States of the order machine as the migration makes it, and a way to each from the initial one. */
export const WAYS: Readonly<Record<string, readonly string[]>> = {
  pending: [],
  confirmed: ['confirmed'],
  shipped: ['confirmed', 'shipped'],
  delivered: ['confirmed', 'shipped', 'delivered'],
  canceled: ['canceled'],
};

/** Places an order; fails when the service doesn't take it. */
export async function place(client: ApiClient, changes: Record<string, unknown> = {}): Promise<Order> {
  const answer = await client.post<Order>('/v1/orders', orderBody(changes));
  if (answer.status !== 201) throw new Error(`POST /v1/orders: ${answer.status} ${answer.text}`);
  return answer.body;
}

export function move(client: ApiClient, id: string, to: string, more: Record<string, unknown> = {}) {
  const reason = to === 'canceled' ? { reason: 'no longer wanted' } : {};
  return client.post<Order>(`/v1/orders/${id}/transitions`, { to, ...reason, ...more });
}

/** Places an order and moves it to a state, through the API. */
export async function placeIn(client: ApiClient, state: string, changes: Record<string, unknown> = {}): Promise<Order> {
  let order = await place(client, changes);
  for (const to of WAYS[state] ?? []) {
    const answer = await move(client, order.id, to);
    if (answer.status !== 201) throw new Error(`${order.status} to ${to}: ${answer.status} ${answer.text}`);
    order = answer.body;
  }
  return order;
}

export async function read(client: ApiClient, id: string, query = ''): Promise<Order> {
  const answer = await client.get<Order>(`/v1/orders/${id}${query}`);
  if (answer.status !== 200) throw new Error(`GET /v1/orders/${id}${query}: ${answer.status} ${answer.text}`);
  return answer.body;
}

/** Moves an order by a plain UPDATE, as the app role. */
export async function moveInSql(service: TestApp, id: string, to: string, role = 'operator'): Promise<void> {
  await inTransaction(service.database.appUrl, await contextOf(service, role), (client) =>
    client.query(
      `UPDATE waybill.orders SET status = $2, transition_reason = 'in SQL' WHERE tenant_id = 1 AND id = $1`,
      [id, to],
    ),
  );
}
