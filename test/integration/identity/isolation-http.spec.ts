import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import type { Answer } from '../../support/api-client.js';
import { type Order, orderBody } from '../../support/builders.js';
import { CREATING, type ForeignRecords, makeForeignRecords, WITHOUT_TENANT } from '../../support/foreign-records.js';
import type { Operation } from '../../support/openapi.js';

describe('routes and the records of another tenant', () => {
  let records: ForeignRecords;
  beforeAll(async () => {
    records = await makeForeignRecords();
  });
  afterAll(() => records.service.close());

  /** Everything of an answer that may not depend on whether the record exists. */
  const essence = ({ status, headers, body }: Answer<Record<string, unknown>>, id: string) => ({
    status,
    headers: [...headers.keys()].toSorted(),
    body: JSON.stringify({ ...body, requestId: '' }).replaceAll(id, 'ID'),
  });

  it('are all known to this test', () => {
    const { operations, onRecords, idFor } = records;
    const known = (operation: Operation) =>
      WITHOUT_TENANT.has(operation.operationId) ||
      CREATING.has(operation.operationId) ||
      (operation.path.includes('{') ? idFor(operation) !== '' : operation.method === 'GET');
    expect(operations.filter((operation) => !known(operation))).toEqual([]);
    expect(operations.length).toBeGreaterThanOrEqual(20);
    expect(onRecords.length).toBeGreaterThanOrEqual(10);
  });

  it('answer a plain 404, the same as for a record that there is not', async () => {
    const { service, order, onRecords, idFor, attempt } = records;
    for (const operation of onRecords) {
      const [foreign, missing] = [idFor(operation), randomUUID()];
      const answers = [
        essence(await attempt(operation, foreign), foreign),
        essence(await attempt(operation, missing), missing),
      ];
      expect([operation.operationId, answers[0]?.status]).toEqual([operation.operationId, 404]);
      expect([operation.operationId, answers[0]]).toEqual([operation.operationId, answers[1]]);
    }
    const untouched = await service.as('operator').get<Order>(`/v1/orders/${order.id}`);
    expect([untouched.body.version, untouched.body.status]).toEqual([2, 'confirmed']);
    expect(untouched.body.customer.name).toBe('Ada Example');
    expect((await service.as('viewer').get('/v1/orders')).status).toBe(200);
  });

  it('list nothing of another tenant', async () => {
    const { ids, order, operations, stranger } = records;
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
    const { ids, stranger } = records;
    const make = (userId: string) => stranger.post<Record<string, unknown>>('/v1/api-keys', { userId, name: 'k' });
    const [foreign, missing] = [ids.users ?? '', randomUUID()];
    expect(essence(await make(foreign), foreign)).toEqual(essence(await make(missing), missing));
  });

  it('give a cursor of another tenant no power', async () => {
    const { service, order, stranger } = records;
    await service.as('operator').post('/v1/orders', orderBody());
    const page = await service.as('operator').get<{ next: string }>('/v1/orders?limit=1');
    const { status, text } = await stranger.get(`/v1/orders?limit=1&cursor=${page.body.next}`);
    expect(status).toBe(200);
    expect(text).not.toContain(order.id);
  });
});
