import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import type { Order } from '../../support/builders.js';
import { move, moveInSql, place } from '../../support/orders.js';
import { rows } from '../../support/sql.js';

interface Event {
  stream: string;
  version: number;
  eventId: string;
  type: string;
  actor: string;
  occurredAt: string;
  body: string;
  prevHash: string;
  eventHash: string;
  format: number;
}

// What follows is written from the formulas of the audit format alone, not from the service's code.
const int4 = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
};
const int8 = (value: bigint) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(value);
  return bytes;
};
const lengthPrefixed = (text: string) => Buffer.concat([int4(Buffer.byteLength(text)), Buffer.from(text)]);
const uuidBytes = (uuid: string) => Buffer.from(uuid.replaceAll('-', ''), 'hex');
const sha256 = (...parts: Uint8Array[]) => createHash('sha256').update(Buffer.concat(parts)).digest('hex');

function microseconds(timestamp: string): bigint {
  return BigInt(Date.parse(`${timestamp.slice(0, 19)}Z`)) * 1000n + BigInt(timestamp.slice(20, 26));
}

function genesis(tenant: bigint, stream: string): string {
  return sha256(Buffer.from('waybill-audit/genesis/v1\n'), int8(tenant), lengthPrefixed(stream));
}

function hashOf(tenant: bigint, event: Event, prevHash: string): string {
  return sha256(
    Buffer.from(`waybill-audit/v${event.format}\n`),
    int8(tenant),
    uuidBytes(event.eventId),
    lengthPrefixed(event.stream),
    int8(BigInt(event.version)),
    int8(microseconds(event.occurredAt)),
    lengthPrefixed(event.type),
    uuidBytes(event.actor),
    lengthPrefixed(event.body),
    Buffer.from(prevHash, 'hex'),
  );
}

function personalDigest(salt: Buffer, field: string, value: string): string {
  return sha256(Buffer.from('waybill-pii/v1\n'), salt, lengthPrefixed(field), lengthPrefixed(value));
}

describe('the events of an order', () => {
  let service: TestApp;
  let order: Order;
  let events: Event[];
  beforeAll(async () => {
    service = await startTestApp();
    const operator = service.as('operator');
    const metadata = { z: [3, { b: null, a: 'ünïcödé 🍵' }], a: Number.MAX_SAFE_INTEGER, f: 0.1 };
    order = await place(operator, { customer: { ref: 'c-🍵', name: 'שלום' }, metadata });
    await operator.patch(`/v1/orders/${order.id}`, { customer: { name: 'Bea' } }, { 'if-match': '*' });
    await move(operator, order.id, 'confirmed');
    await moveInSql(service, order.id, 'shipped', 'admin');
    events = (await service.as('auditor').get<{ data: Event[] }>(`/v1/orders/${order.id}/events`)).body.data;
  });
  afterAll(() => service.close());

  it('are one for each version, of types that say what happened', () => {
    expect(events.map(({ version, type }) => [version, type])).toEqual([
      [1, 'order.created'],
      [2, 'order.updated'],
      [3, 'order.confirmed'],
      [4, 'order.shipped'],
    ]);
    expect(new Set(events.map(({ eventId }) => eventId)).size).toBe(4);
    expect(events.every(({ stream }) => stream === `order/${order.id}`)).toBe(true);
  });

  it('carry the hash that the published formula gives, chained from the genesis of their stream', () => {
    let previous = genesis(1n, `order/${order.id}`);
    for (const event of events) {
      expect(event.prevHash).toBe(previous);
      expect(event.eventHash).toBe(hashOf(1n, event, previous));
      previous = event.eventHash;
    }
  });

  it('differ in their hash when any field differs', () => {
    const [event] = events as [Event];
    const other = '00000000-0000-4000-8000-000000000000';
    const changes: Partial<Event>[] = [
      { stream: `${event.stream}x` },
      { version: 2 },
      { eventId: other },
      { type: 'order.updated' },
      { actor: other },
      { occurredAt: event.occurredAt.replace(/\d(?=Z)/, (digit) => String((Number(digit) + 1) % 10)) },
      { body: `${event.body} ` },
      { format: 2 },
    ];
    const hashes = changes.map((change) => hashOf(1n, { ...event, ...change }, event.prevHash));
    hashes.push(hashOf(2n, event, event.prevHash), hashOf(1n, event, event.eventHash));
    expect(hashes).not.toContain(event.eventHash);
    expect(new Set(hashes).size).toBe(hashes.length);
  });

  it('belong to a tenant: the same stream of another begins otherwise', () => {
    expect(genesis(2n, `order/${order.id}`)).not.toBe(events[0]?.prevHash);
  });

  it('hold the whole order, and the digests of its personal data under their salts', async () => {
    const contacts = await rows<{ field: string; version: number; salt: Buffer; value: string }>(
      service.database.superuserUrl,
      'SELECT field, version, salt, value FROM waybill.order_contacts WHERE order_id = $1',
      [order.id],
    );
    const last = JSON.parse(events[3]?.body ?? '') as {
      snapshot: Record<string, Record<string, { version: number; digest: string }>>;
    };
    const now = (await service.as('viewer').get<Order>(`/v1/orders/${order.id}`)).body;
    const { customer, shippingAddress, billingAddress, eventHash, ...open } = now;
    expect(last.snapshot).toMatchObject({ ...open, customerRef: customer.ref });
    expect(eventHash).toBe(events[3]?.eventHash);
    expect([shippingAddress?.city, billingAddress]).toEqual(['Berlin', null]);
    const kept = last.snapshot.contacts ?? {};
    expect(Object.keys(kept).toSorted()).toEqual(['customer', 'shippingAddress']);
    expect(kept.customer?.version).toBe(2);
    for (const [field, { version, digest }] of Object.entries(kept)) {
      const row = contacts.find((contact) => contact.field === field && contact.version === version);
      expect(digest).toBe(personalDigest(row?.salt ?? Buffer.alloc(0), field, row?.value ?? ''));
    }
    expect(new Set(contacts.map(({ salt }) => salt.toString('hex'))).size).toBe(contacts.length);
  });

  it('carry the very bytes that the database hashed', async () => {
    const stored = await rows<{ body: string; occurred_us: string }>(
      service.database.superuserUrl,
      'SELECT body, occurred_us FROM audit.events WHERE stream = $1 ORDER BY version',
      [`order/${order.id}`],
    );
    expect(stored.map(({ body }) => body)).toEqual(events.map(({ body }) => body));
    expect(stored.map(({ occurred_us }) => BigInt(occurred_us))).toEqual(
      events.map(({ occurredAt }) => microseconds(occurredAt)),
    );
  });

  it('show as changes of fields in audit.field_changes', async () => {
    const changes = await rows<{ field_name: string; old_value: unknown; new_value: unknown; table_name: string }>(
      service.database.superuserUrl,
      `SELECT table_name, field_name, old_value, new_value FROM audit.field_changes WHERE record_id = $1 AND version >= 3 ORDER BY version`,
      [order.id],
    );
    expect(changes).toEqual([
      { table_name: 'orders', field_name: 'status', old_value: 'pending', new_value: 'confirmed' },
      { table_name: 'orders', field_name: 'status', old_value: 'confirmed', new_value: 'shipped' },
    ]);
  });

  it('say which members differ, whatever texts stand in them', async () => {
    const operator = service.as('operator');
    const joint = '{"a":1},"lines":[],"snapshot":{"id":"';
    const metadata = { lines: [{ snapshot: joint }], [joint]: { snapshot: { lines: [] } }, contacts: null };
    const line = { sku: 'TEA-1', name: joint, quantity: 2, unitPrice: 1299 };
    const { id } = await place(operator, {
      customer: { ref: 'c-1', name: joint },
      lines: [line],
      metadata,
      expectedTotal: undefined,
    });
    const change = async (body: object) => {
      expect((await operator.patch(`/v1/orders/${id}`, body, { 'if-match': '*' })).status).toBe(200);
    };
    await change({ metadata: { [joint]: null, lines: null, snapshot: joint } });
    await change({ customer: { name: `${joint}!` } });
    await change({ lines: [line, { ...line, sku: 'TEA-2' }], metadata: { snapshot: { lines: joint } } });
    await change({ lines: [{ ...line, name: 'Green tea' }] });
    await move(operator, id, 'confirmed');
    await move(operator, id, 'canceled', { reason: joint });

    const { data } = (await service.as('auditor').get<{ data: Event[] }>(`/v1/orders/${id}/events`)).body;
    const bodies = data.map(({ body }) => JSON.parse(body) as { changes: object; snapshot: Record<string, unknown> });
    expect(bodies).toHaveLength(7);
    for (const [at, { changes, snapshot }] of bodies.entries()) {
      const before = bodies[at - 1]?.snapshot;
      const differing = Object.keys(snapshot).filter(
        (member) =>
          !['version', 'updatedAt'].includes(member) && !isDeepStrictEqual(before?.[member], snapshot[member]),
      );
      const expected = differing.map((member) => [member, { old: before?.[member], new: snapshot[member] }]);
      expect(changes).toEqual(before ? Object.fromEntries(expected) : null);
    }
  });

  it('never run backwards in time, not even when the clock does', async () => {
    const other = await place(service.as('operator'));
    const ahead = '2126-01-01T00:00:00.000009Z';
    await rows(
      service.database.superuserUrl,
      `SET session_replication_role = replica; UPDATE waybill.orders SET updated_at = '${ahead}' WHERE id = '${other.id}'`,
    );
    expect((await move(service.as('operator'), other.id, 'confirmed')).body.updatedAt).toBe(
      '2126-01-01T00:00:00.000010Z',
    );
    const { data } = (
      await service.as('viewer').get<{ data: { changedAt: string }[] }>(`/v1/orders/${other.id}/history`)
    ).body;
    expect(data[1]?.changedAt).toBe('2126-01-01T00:00:00.000010Z');
  });
});
