import { afterAll } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { type Answer, ApiClient } from '../../support/api-client.js';
import type { Order } from '../../support/builders.js';
import { type OrderDraft, orderDraft } from './order-draft.js';

/** What a spec of the black-box suite works with. */
export interface Suite {
  /** Speaks to the service, and holds every answer against its OpenAPI document. */
  api: ApiClient;
  /** Makes references that no other run and no other file has. */
  uniqueRef(): string;
  /** Places an order that is right, with these changes, and takes care of it at the end. */
  place(changes?: OrderDraft): Promise<Order>;
  /** Takes a step and returns the order as it is then; anything but 201 throws. */
  move(order: Order, to: string, reason?: string): Promise<Order>;
  /** For orders that a spec placed by `api` itself: they are canceled at the end, as far as possible. */
  adopt(answer: Answer<unknown>): void;
}

/** Call it once at the top of a spec's `describe`: it also cleans up after it. */
export function startSuite(): Suite {
  const api = new ApiClient(setting('WAYBILL_E2E_BASE_URL'), setting('WAYBILL_E2E_API_KEY'));
  const run = randomUUID().slice(0, 8);
  const placed = new Set<string>();
  let made = 0;

  const suite: Suite = {
    api,
    uniqueRef: () => `e2e-${run}-${(made += 1)}`,
    adopt: ({ status, body }) => {
      if (status === 201 && hasId(body)) placed.add(body.id);
    },
    place: async (changes = {}) => {
      const answer = await api.post<Order>('/v1/orders', orderDraft({ externalRef: suite.uniqueRef(), ...changes }));
      suite.adopt(answer);
      return expected(answer, 201);
    },
    move: async ({ id }, to, reason) =>
      expected(await api.post<Order>(`/v1/orders/${id}/transitions`, { to, reason }), 201),
  };
  afterAll(() => cleanUp(api, placed));
  return suite;
}

/** Orders can't be deleted: what can still be canceled is, and the rest is said. */
async function cleanUp(api: ApiClient, placed: ReadonlySet<string>): Promise<void> {
  const stays: string[] = [];
  for (const id of placed) {
    const { status } = await api.post(`/v1/orders/${id}/transitions`, { to: 'canceled', reason: 'end-to-end test' });
    if (status !== 201) {
      const { body } = await api.get<Order>(`/v1/orders/${id}`);
      if (body.status !== 'canceled') stays.push(`${body.number} (${body.status})`);
    }
  }
  if (stays.length > 0)
    process.stdout.write(`These orders stay, they can no longer be canceled: ${stays.join(', ')}\n`);
}

function expected<Body>(answer: Answer<Body>, status: number): Body {
  if (answer.status === status) return answer.body;
  throw new Error(`expected ${status}, and the answer was ${answer.status}: ${answer.text}`);
}

function hasId(body: unknown): body is { id: string } {
  return typeof body === 'object' && body !== null && 'id' in body && typeof body.id === 'string';
}

function setting(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run the suite by "npm run test:e2e"`);
  return value;
}
