import { EVENTS_OF_A_NEW_TENANT } from './audit.js';
import type { ApiClient } from './api-client.js';
import type { TestApp } from './app.js';
import { eventually } from './waiting.js';
import type { Order } from './builders.js';
import type { ExampleRecorder } from './example-recorder.js';
import { deliver, type Payment, signed } from './payments.js';

/*
 * What the OpenAPI document shows as examples: requests to every operation, in the order in which things happen.
 */

const REQUEST_ID = { 'x-request-id': 'web-shop-17' };

const ORDER = {
  channel: 'web',
  externalRef: 'web-10001',
  currency: 'EUR',
  customer: { ref: 'c-42', name: 'Ada Example', email: 'ada@example.test' },
  shippingAddress: { line1: '1 Main St', city: 'Berlin', postalCode: '10115', country: 'DE' },
  lines: [{ sku: 'TEA-1', name: 'Green tea', quantity: 2, unitPrice: 1299, discount: 0, taxRatePpm: 190_000 }],
  shipping: 490,
  expectedTotal: 3582,
  metadata: { campaign: 'spring' },
};
const BARE_ORDER = {
  channel: 'phone',
  currency: 'JPY',
  customer: { ref: 'c-7' },
  lines: [{ sku: 'CUP-3', name: 'Cup', quantity: 1, unitPrice: 2400 }],
};

/** The life of an order, as the API page shows it. */
export async function playOrders(recorder: ExampleRecorder, api: ApiClient): Promise<void> {
  const show = recorder.show.bind(recorder);
  await show('getLiveness', 'The process answers', () => api.get('/health/live'));
  await show('getReadiness', 'The database answers', () => api.get('/health/ready'));
  await show('listWorkflows', 'The machines in force', () => api.get('/v1/workflows'));
  await show('getWorkflow', 'The machine of orders', () => api.get('/v1/workflows/order'));

  const placed = await show('placeOrder', 'An order of one line', () =>
    api.post<Order>('/v1/orders', ORDER, REQUEST_ID),
  );
  await show('placeOrder', 'Only what is required', () => api.post('/v1/orders', BARE_ORDER, REQUEST_ID));
  await show('placeOrder', 'A total that differs', () =>
    api.post('/v1/orders', { ...ORDER, externalRef: 'web-10002', expectedTotal: 3581 }, REQUEST_ID),
  );
  const path = `/v1/orders/${placed.body.id}`;
  await show('listOrders', 'The first page of two', () => api.get('/v1/orders?limit=1&count=exact'));
  await show('getOrder', 'An order that was just placed', () => api.get(path));
  await show('patchOrder', 'Another e-mail address', () =>
    api.patch(
      path,
      { customer: { email: 'ada.example@example.test' }, metadata: { gift: true } },
      { 'if-match': '"1"', ...REQUEST_ID },
    ),
  );
  await show('patchOrder', 'A change of a version that is out of date', () =>
    api.patch(path, { shipping: 0 }, { 'if-match': '"1"', ...REQUEST_ID }),
  );
  await show('listOrderTransitions', 'What can happen to a pending order', () => api.get(`${path}/transitions`));
  const move = (summary: string, body: object) =>
    show('transitionOrder', summary, () => api.post(`${path}/transitions`, body, REQUEST_ID));
  await move('A step that the workflow does not have', { to: 'delivered' });
  await move('Confirm', { to: 'confirmed' });
  await move('A second click', { to: 'confirmed' });
  await move('Cancel without a reason', { to: 'canceled' });
  await move('Cancel', { to: 'canceled', reason: 'customer changed their mind' });
  await show('listOrderHistory', 'Placed, confirmed, canceled', () => api.get(`${path}/history`));
  await show('listOrderVersions', 'The first two versions', () => api.get(`${path}/versions?limit=2`));
  await eventually(async () => {
    const { body } = await api.get<{ data: { logIndex: number | null }[] }>(`${path}/events`);
    return body.data.every(({ logIndex }) => logIndex !== null);
  });
  await show('listOrderEvents', 'The event that the placing made', () => api.get(`${path}/events?limit=1`));
}

/** A new service gets a user and a key. */
export async function playAdministration(recorder: ExampleRecorder, api: ApiClient): Promise<void> {
  const show = recorder.show.bind(recorder);
  const user = { subject: 'shop-backend', kind: 'service', displayName: 'Shop backend', roles: ['operator'] };
  const { body: made } = await show('createUser', 'A service that places orders', () =>
    api.post<{ id: string }>('/v1/users', user, REQUEST_ID),
  );
  await show('createUser', 'A subject that is taken', () => api.post('/v1/users', user, REQUEST_ID));
  await show('getUser', 'A service', () => api.get(`/v1/users/${made.id}`));
  await show('listUsers', 'The newest user', () => api.get('/v1/users?limit=1'));
  const makeKey = () =>
    api.post<{ id: string }>(
      '/v1/api-keys',
      { userId: made.id, name: 'shop, production' },
      { ...REQUEST_ID, 'idempotency-key': 'shop-key-1' },
    );
  const { body: key } = await show('createApiKey', 'A key that is seen this once', makeKey);
  await show('createApiKey', 'The same once more', makeKey);
  await show('getApiKey', 'A key', () => api.get(`/v1/api-keys/${key.id}`));
  await show('listApiKeys', 'The keys of one user', () => api.get(`/v1/api-keys?userId=${made.id}`));
  await show('patchUser', 'Disable a user', () => api.patch(`/v1/users/${made.id}`, { disabled: true }, REQUEST_ID));
  const person = { subject: 'ada', kind: 'human', displayName: 'Ada Example', roles: ['viewer'] };
  const ada = await api.post<{ id: string }>('/v1/users', person, REQUEST_ID);
  await show('eraseUser', 'A person who left', () =>
    api.post(`/v1/users/${ada.body.id}/erasure`, undefined, REQUEST_ID),
  );
}

/** An order is paid, and a part of it given back; another one's card is declined. */
export async function playPayments(recorder: ExampleRecorder, api: ApiClient, service: TestApp): Promise<void> {
  const show = recorder.show.bind(recorder);
  const order = async (): Promise<string> => (await api.post<Order>('/v1/orders', BARE_ORDER, REQUEST_ID)).body.id;
  const first = await order();
  const authorize = (summary: string, orderId: string, paymentMethod: string) =>
    show('authorizePayment', summary, () =>
      api.post<Payment>(`/v1/orders/${orderId}/payments`, { paymentMethod }, REQUEST_ID),
    );
  const { body: held } = await authorize('Hold the total', first, 'tok_approve');
  await authorize('A card that is declined', await order(), 'tok_declined_insufficient_funds');
  const path = `/v1/payments/${held.id}`;
  await show('capturePayment', 'Take all of it', () => api.post(`${path}/captures`, {}, REQUEST_ID));
  await show('refundPayment', 'Give a part back', () =>
    api.post(`${path}/refunds`, { amount: 1000, reason: 'one of two was broken' }, REQUEST_ID),
  );
  await show('getPayment', 'A payment with a refund', () => api.get(path));
  const { body: other } = await api.post<Payment>(
    `/v1/orders/${await order()}/payments`,
    { paymentMethod: 'tok_approve' },
    REQUEST_ID,
  );
  await show('voidPayment', 'Let go of what is held', () =>
    api.post(`/v1/payments/${other.id}/voids`, undefined, REQUEST_ID),
  );
  const event = await signed(service, { id: 'evt_1', type: 'payment.reviewed', metadata: {} });
  await show('receivePaymentEvent', 'An event that means nothing here', () => deliver(api, event));
}

/** The log is read, proven and verified. */
export async function playAudit(recorder: ExampleRecorder, api: ApiClient): Promise<void> {
  const show = recorder.show.bind(recorder);
  // After what a tenant has to tell of itself, which has keys of its own in each run.
  await show('listAuditEvents', 'The first order of the tenant', () =>
    api.get(`/v1/audit/events?after=${EVENTS_OF_A_NEW_TENANT}&limit=1`),
  );
  await show('getInclusionProof', 'That the third event is in the log', () =>
    api.get('/v1/audit/proofs/inclusion?index=2&size=4'),
  );
  await show('getConsistencyProof', 'That nothing before was rewritten', () =>
    api.get('/v1/audit/proofs/consistency?from=2&to=4'),
  );
  const { body: started } = await show('startVerification', 'A verification that begins', () =>
    api.post<{ id: string }>('/v1/audit/verification', undefined, REQUEST_ID),
  );
  const last = () => api.get<{ id: string }>('/v1/audit/verification');
  await eventually(async () => {
    const { status, body } = await last();
    return status === 200 && body.id === started.id;
  });
  await show('getVerification', 'Nothing was tampered with', last);
}

/** A customer's data go. */
export async function playErasure(recorder: ExampleRecorder, api: ApiClient): Promise<void> {
  await recorder.show('eraseCustomer', 'The data of one customer', () =>
    api.post('/v1/customers/c-42/erasure', undefined, REQUEST_ID),
  );
}
