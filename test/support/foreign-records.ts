import { randomUUID } from 'node:crypto';
import { type Answer, ApiClient } from './api-client.js';
import { startTestApp, type TestApp } from './app.js';
import { type Order, orderBody } from './builders.js';
import { type Operation, operationsOf } from './openapi.js';
import { actorOf } from './sql.js';

/**
 * Operations that show nothing of any tenant, or only what it has made public; a provider's event says whose it is below its
 * signature. A new one is a decision: make it, then add it.
 */
export const WITHOUT_TENANT = new Set([
  'receivePaymentEvent',
  'getLiveness',
  'getReadiness',
  'listWorkflows',
  'getWorkflow',
  'getWorkflowDiagram',
  'getPublicCheckpoint',
  'getTile',
  'getLaterPublicCheckpoint',
  'getLaterTile',
]);
/** Operations that make or start something new and name nothing that exists. */
export const CREATING = new Set(['placeOrder', 'createUser', 'createApiKey', 'startVerification']);
/** Bodies with which an operation on something of one's own would work. */
const BODIES: Record<string, unknown> = {
  patchOrder: { metadata: { touched: true } },
  transitionOrder: { to: 'confirmed' },
  patchUser: { displayName: 'Touched' },
  authorizePayment: { paymentMethod: 'tok_approve' },
};

/** Records of one tenant, and somebody of another who may do everything there. */
export interface ForeignRecords {
  service: TestApp;
  order: Order;
  stranger: ApiClient;
  operations: Operation[];
  /** Those of the operations that name a record. */
  onRecords: Operation[];
  /** The first tenant's ids, by the collection in which they are looked for. */
  ids: Readonly<Record<string, string>>;
  /** @throws Error for an operation on something that this file makes none of */
  idFor(operation: Operation): string;
  /** The stranger tries it on the record with that id. */
  attempt(operation: Operation, id: string): Promise<Answer<Record<string, unknown>>>;
}

export async function makeForeignRecords(): Promise<ForeignRecords> {
  const service = await startTestApp({ env: { RATE_LIMIT: 'off' } });
  const operations = await operationsOf(service);
  const order = await placeForOne(service);
  const ids = await idsOf(service, order);
  const stranger = await strangerTo(service);
  const idFor = ({ path, operationId }: Operation): string => {
    const collection = /^\/v1\/([a-z-]+)\/\{[a-z]+\}/.exec(path)?.[1] ?? '';
    const id = ids[collection];
    if (id) return id;
    throw new Error(`${operationId} (${path}): teach this file to make a record of the first tenant for it`);
  };
  const attempt: ForeignRecords['attempt'] = ({ method, path, operationId, takesBody }, id) =>
    stranger.send(method, path.replace(/\{[a-z]+\}/, id), {
      body: BODIES[operationId] ?? (takesBody ? {} : undefined),
      headers: {
        ...(method === 'GET' ? {} : { 'idempotency-key': randomUUID() }),
        ...(method === 'PATCH' ? { 'if-match': '*', 'content-type': 'application/merge-patch+json' } : {}),
      },
    });
  const onRecords = operations.filter(
    ({ operationId, path }) => path.includes('{') && !WITHOUT_TENANT.has(operationId),
  );
  return { service, order, stranger, operations, onRecords, ids, idFor, attempt };
}

async function placeForOne(service: TestApp): Promise<Order> {
  const customer = { ref: 'customer-of-the-first', name: 'Ada Example' };
  const order = (await service.as('operator').post<Order>('/v1/orders', orderBody({ customer }))).body;
  await service.as('operator').post(`/v1/orders/${order.id}/transitions`, { to: 'confirmed' });
  return order;
}

async function idsOf(service: TestApp, order: Order): Promise<Record<string, string>> {
  const pay = { paymentMethod: 'tok_approve' };
  const payment = await service.as('operator').post<{ id: string }>(`/v1/orders/${order.id}/payments`, pay);
  const userId = await actorOf(service, 'viewer');
  const keys = await service.as('admin').get<{ data: { id: string }[] }>(`/v1/api-keys?userId=${userId}`);
  return {
    orders: order.id,
    payments: payment.body.id,
    customers: order.customer.ref ?? '',
    users: userId,
    'api-keys': keys.body.data[0]?.id ?? '',
  };
}

async function strangerTo(service: TestApp): Promise<ApiClient> {
  const roles = ['viewer', 'operator', 'admin', 'auditor'];
  const body = { subject: 'all-roles', kind: 'service', displayName: 'All roles', roles };
  const user = await service.asOther('admin').post<{ id: string }>('/v1/users', body);
  const key = await service
    .asOther('admin')
    .post<{ secret: string }>('/v1/api-keys', { userId: user.body.id, name: 'k' });
  return new ApiClient(service.baseUrl, key.body.secret);
}
