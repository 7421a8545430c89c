import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ApiClient } from '../support/api-client.js';
import { startTestApp, type TestApp } from '../support/app.js';
import type { Order } from '../support/builders.js';
import { ExampleRecorder } from '../support/example-recorder.js';

const RECORDING = join(import.meta.dirname, '../../src/api-document/recorded-examples.json');
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

describe('the examples of the OpenAPI document', () => {
  let service: TestApp;
  const recorder = new ExampleRecorder();
  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  it('are what the running service answers; UPDATE_GOLDEN=1 records them again', async () => {
    const as = (role: string) => new ApiClient(service.baseUrl, service.tenants[0].keys[role], recorder.onExchange);
    await playStory(recorder, as('operator'));
    await playAdministration(recorder, as('admin'));
    const recording = recorder.recording();
    if (process.env.UPDATE_GOLDEN === '1') writeFileSync(RECORDING, `${JSON.stringify(recording, null, 2)}\n`);
    expect(recording).toEqual(JSON.parse(readFileSync(RECORDING, 'utf8')));
  });
});

/** The life of an order, as the API page shows it. */
async function playStory(recorder: ExampleRecorder, api: ApiClient): Promise<void> {
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
  await show('listOrderEvents', 'The event that the placing made', () => api.get(`${path}/events?limit=1`));
}

/** A new service gets a user and a key. */
async function playAdministration(recorder: ExampleRecorder, api: ApiClient): Promise<void> {
  const show = recorder.show.bind(recorder);
  const user = { subject: 'shop-backend', kind: 'service', displayName: 'Shop backend', roles: ['operator'] };
  const { body: made } = await show('createUser', 'A service that places orders', () =>
    api.post<{ id: string }>('/v1/users', user, REQUEST_ID),
  );
  await show('createUser', 'A subject that is taken', () => api.post('/v1/users', user, REQUEST_ID));
  await show('getUser', 'A service', () => api.get(`/v1/users/${made.id}`));
  await show('listUsers', 'The newest user', () => api.get('/v1/users?limit=1'));
  const { body: key } = await show('createApiKey', 'A key that is seen this once', () =>
    api.post<{ id: string }>('/v1/api-keys', { userId: made.id, name: 'shop, production' }, REQUEST_ID),
  );
  await show('getApiKey', 'A key', () => api.get(`/v1/api-keys/${key.id}`));
  await show('listApiKeys', 'The keys of one user', () => api.get(`/v1/api-keys?userId=${made.id}`));
  await show('patchUser', 'Disable a user', () => api.patch(`/v1/users/${made.id}`, { disabled: true }, REQUEST_ID));
}
