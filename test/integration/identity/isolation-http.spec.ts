import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { type Answer, ApiClient } from '../../support/api-client.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Order, orderBody } from '../../support/builders.js';
import { type Operation, operationsOf } from '../../support/openapi.js';
import { actorOf } from '../../support/sql.js';

/**
 * Operations that show nothing of any tenant; a provider's event says whose it is below its signature. A new one is a
 * decision: make it, then add it.
 */
const WITHOUT_TENANT = new Set([
  'receivePaymentEvent',
  'getLiveness',
  'getReadiness',
  'listWorkflows',
  'getWorkflow',
  'getWorkflowDiagram',
]);
/** Operations that make or start something new and name nothing that exists. */
const CREATING = new Set(['placeOrder', 'createUser', 'createApiKey', 'startVerification']);
/** Bodies with which an operation on something of one's own would work. */
const BODIES: Record<string, unknown> = {
  patchOrder: { metadata: { touched: true } },
  transitionOrder: { to: 'confirmed' },
  patchUser: { displayName: 'Touched' },
  authorizePayment: { paymentMethod: 'tok_approve' },
};

describe('routes and the records of another tenant', () => {
  let service: TestApp;
  let operations: Operation[];
  let stranger: ApiClient;
  /** What belongs to the first tenant, by the collection that its id is looked for in. */
  let ids: Record<string, string>;
  let order: Order;
  beforeAll(async () => {
    service = await startTestApp({ env: { RATE_LIMIT: 'off' } });
    operations = await operationsOf(service);
    const customer = { ref: 'customer-of-the-first', name: 'Ada Example' };
    order = (await service.as('operator').post<Order>('/v1/orders', orderBody({ customer }))).body;
    await service.as('operator').post(`/v1/orders/${order.id}/transitions`, { to: 'confirmed' });
    const pay = { paymentMethod: 'tok_approve' };
    const payment = await service.as('operator').post<{ id: string }>(`/v1/orders/${order.id}/payments`, pay);
    const userId = await actorOf(service, 'viewer');
    const keys = await service.as('admin').get<{ data: { id: string }[] }>(`/v1/api-keys?userId=${userId}`);
    ids = {
      orders: order.id,
      payments: payment.body.id,
      customers: customer.ref,
      users: userId,
      'api-keys': keys.body.data[0]?.id ?? '',
    };
    // Somebody of the second tenant who may do everything there.
    const roles = ['viewer', 'operator', 'admin', 'auditor'];
    const body = { subject: 'all-roles', kind: 'service', displayName: 'All roles', roles };
    const user = await service.asOther('admin').post<{ id: string }>('/v1/users', body);
    const key = await service
      .asOther('admin')
      .post<{ key: string }>('/v1/api-keys', { userId: user.body.id, name: 'k' });
    stranger = new ApiClient(service.baseUrl, key.body.key);
  });
  afterAll(() => service.close());

  const onRecords = () =>
    operations.filter(({ operationId, path }) => path.includes('{') && !WITHOUT_TENANT.has(operationId));
  const idFor = ({ path, operationId }: Operation): string => {
    const collection = /^\/v1\/([a-z-]+)\/\{[a-z]+\}/.exec(path)?.[1] ?? '';
    const id = ids[collection];
    if (id) return id;
    throw new Error(`${operationId} (${path}): teach this test to make a record of the first tenant for it`);
  };
  const call = (
    { method, path, operationId, takesBody }: Operation,
    id: string,
  ): Promise<Answer<Record<string, unknown>>> =>
    stranger.send(method, path.replace(/\{[a-z]+\}/, id), {
      body: BODIES[operationId] ?? (takesBody ? {} : undefined),
      headers: {
        ...(method === 'GET' ? {} : { 'idempotency-key': randomUUID() }),
        ...(method === 'PATCH' ? { 'if-match': '*', 'content-type': 'application/merge-patch+json' } : {}),
      },
    });
  /** Everything of an answer that may not depend on whether the record exists. */
  const essence = ({ status, headers, body }: Answer<Record<string, unknown>>, id: string) => ({
    status,
    headers: [...headers.keys()].toSorted(),
    body: JSON.stringify({ ...body, requestId: '' }).replaceAll(id, 'ID'),
  });

  it('are all known to this test', () => {
    const known = (operation: Operation) =>
      WITHOUT_TENANT.has(operation.operationId) ||
      CREATING.has(operation.operationId) ||
      (operation.path.includes('{') ? idFor(operation) !== '' : operation.method === 'GET');
    expect(operations.filter((operation) => !known(operation))).toEqual([]);
    expect(operations.length).toBeGreaterThanOrEqual(20);
    expect(onRecords().length).toBeGreaterThanOrEqual(10);
  });

  it('answer a plain 404, the same as for a record that there is not', async () => {
    for (const operation of onRecords()) {
      const [foreign, missing] = [idFor(operation), randomUUID()];
      const answers = [
        essence(await call(operation, foreign), foreign),
        essence(await call(operation, missing), missing),
      ];
      expect([operation.operationId, answers[0]?.status]).toEqual([operation.operationId, 404]);
      expect([operation.operationId, answers[0]]).toEqual([operation.operationId, answers[1]]);
    }
    const untouched = await service.as('operator').get<Order>(`/v1/orders/${order.id}`);
    expect([untouched.body.version, untouched.body.status]).toEqual([2, 'confirmed']);
    expect(untouched.body.customer.name).toBe('Ada Example');
    expect((await service.as('viewer').get('/v1/orders')).status).toBe(200);
  });

  it('take no longer or shorter for a foreign record than for a missing one', async () => {
    for (const operation of onRecords()) {
      const times: Record<'foreign' | 'missing', number[]> = { foreign: [], missing: [] };
      const timed = async (kind: 'foreign' | 'missing') => {
        const id = kind === 'foreign' ? idFor(operation) : randomUUID();
        const start = performance.now();
        await call(operation, id);
        times[kind].push(performance.now() - start);
      };
      for (let i = 0; i < 40; i += 1) {
        await timed(i % 2 === 0 ? 'foreign' : 'missing');
        await timed(i % 2 === 0 ? 'missing' : 'foreign');
      }
      const [foreign, missing] = [medianOf(times.foreign), medianOf(times.missing)];
      const isSame = Math.abs(foreign - missing) < Math.max(2, 0.4 * Math.max(foreign, missing));
      expect([operation.operationId, isSame || `${foreign} ms against ${missing} ms`]).toEqual([
        operation.operationId,
        true,
      ]);
    }
  });

  it('list nothing of another tenant', async () => {
    const secrets = [...Object.values(ids), order.number, order.externalRef ?? 'none', 'Ada Example'];
    const lists = operations.filter(({ method, path }) => method === 'GET' && !path.includes('{'));
    expect(lists.length).toBeGreaterThanOrEqual(4);
    const statuses: number[] = [];
    for (const { path, operationId } of lists) {
      // Some want parameters, or have nothing to show yet; none may show what is another's.
      const { text, status } = await stranger.get(path);
      statuses.push(status);
      expect([operationId, secrets.filter((secret) => text.includes(secret))]).toEqual([operationId, []]);
    }
    expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(6);
    const searched = await stranger.get<{ data: unknown[] }>(`/v1/orders?q=${order.number}`);
    const byRef = await stranger.get<{ data: unknown[] }>(`/v1/orders?externalRef=${order.externalRef}`);
    expect([searched.body.data, byRef.body.data]).toEqual([[], []]);
  });

  it('make no key for a user of another tenant, as if there were none', async () => {
    const make = (userId: string) => stranger.post<Record<string, unknown>>('/v1/api-keys', { userId, name: 'k' });
    const [foreign, missing] = [ids.users ?? '', randomUUID()];
    expect(essence(await make(foreign), foreign)).toEqual(essence(await make(missing), missing));
  });

  it('give a cursor of another tenant no power', async () => {
    await service.as('operator').post('/v1/orders', orderBody());
    const page = await service.as('operator').get<{ next: string }>('/v1/orders?limit=1');
    const { status, text } = await stranger.get(`/v1/orders?limit=1&cursor=${page.body.next}`);
    expect(status).toBe(200);
    expect(text).not.toContain(order.id);
  });
});

function medianOf(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}
