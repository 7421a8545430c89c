import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Module, type Type } from '@nestjs/common';
import type { TenantTransaction } from '../../../src/database/index.js';
import {
  type TransitionChange,
  TransitionGuard,
  type TransitionGuardProvider,
  TransitionHook,
  type TransitionHookProvider,
} from '../../../src/workflow/index.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import type { Order, ProblemAnswer } from '../../support/builders.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { place, placeIn, read } from '../../support/orders.js';
import { countRows, rows } from '../../support/sql.js';

@TransitionGuard('paid')
class PaidGuard implements TransitionGuardProvider {
  async refuse(tx: TenantTransaction, { entityId }: TransitionChange): Promise<string | null> {
    const [order] = await tx.adHocRows<{ paid: boolean | null }>(
      `SELECT (metadata -> 'paid')::boolean AS paid FROM waybill.orders WHERE tenant_id = $1 AND id = $2`,
      [tx.context.tenantId, entityId],
    );
    return order?.paid ? null : 'The order is not paid.';
  }
}

@TransitionGuard('weekday')
class WeekdayGuard implements TransitionGuardProvider {
  static closed = false;
  async refuse(): Promise<string | null> {
    return WeekdayGuard.closed ? 'The warehouse is closed.' : null;
  }
}

@TransitionHook({ machine: 'order', to: 'confirmed' })
class NoteHook implements TransitionHookProvider {
  static readonly seen: TransitionChange[] = [];
  async run(tx: TenantTransaction, change: TransitionChange): Promise<void> {
    NoteHook.seen.push(change);
    await tx.adHocRows(
      `UPDATE waybill.orders SET metadata = metadata || '{"noted":true}' WHERE tenant_id = $1 AND id = $2 RETURNING id`,
      [tx.context.tenantId, change.entityId],
    );
  }
}

@TransitionHook({ machine: 'order', from: 'confirmed', to: 'canceled' })
class ThrowingHook implements TransitionHookProvider {
  async run(tx: TenantTransaction, change: TransitionChange): Promise<void> {
    await tx.adHocRows(
      `UPDATE waybill.orders SET metadata = '{"half":"done"}' WHERE tenant_id = $1 AND id = $2 RETURNING id`,
      [tx.context.tenantId, change.entityId],
    );
    throw new Error('the warehouse does not answer');
  }
}

@Module({ providers: [PaidGuard, WeekdayGuard] })
class GuardModule {}

@Module({ providers: [NoteHook, ThrowingHook] })
class HookModule {}

const guardShipping = `UPDATE waybill.valid_transitions SET guards = '{paid,weekday}' WHERE to_state = 'shipped'`;
const guardCanceling = `UPDATE waybill.valid_transitions SET guards = '{paid}' WHERE to_state = 'canceled'`;

async function databaseWith(...statements: string[]): Promise<TestDatabase> {
  const database = await createTestDatabase();
  for (const statement of statements) await rows(database.superuserUrl, statement);
  return database;
}

describe('a guard that an extension brings', () => {
  let service: TestApp;
  let database: TestDatabase;
  beforeAll(async () => {
    database = await databaseWith(guardShipping, guardCanceling);
    service = await startTestApp({ extensions: [GuardModule], database });
  });
  afterAll(async () => {
    await service.close();
    await database.drop();
  });

  const ship = (id: string, more: object = {}) =>
    service.as('operator').post<Order & ProblemAnswer>(`/v1/orders/${id}/transitions`, { to: 'shipped', ...more });

  it('refuses with its name and its sentence, all guards at once, and nothing is stored', async () => {
    const order = await placeIn(service.as('operator'), 'confirmed');
    const before = await countRows(database.superuserUrl);
    WeekdayGuard.closed = true;
    const both = await ship(order.id, { metadata: { x: 1 } });
    WeekdayGuard.closed = false;
    expect(both.status).toBe(409);
    expect(both.headers.get('content-type')).toBe('application/problem+json');
    expect(both.body).toMatchObject({
      code: 'guard-refused',
      guards: [
        { code: 'paid', detail: 'The order is not paid.' },
        { code: 'weekday', detail: 'The warehouse is closed.' },
      ],
    });
    expect((await ship(order.id)).body).toMatchObject({ guards: [{ code: 'paid' }] });
    expect(await read(service.as('viewer'), order.id)).toEqual(order);
    expect(await countRows(database.superuserUrl)).toEqual(before);
  });

  it('lets it pass when its condition holds', async () => {
    const order = await placeIn(service.as('operator'), 'confirmed', { metadata: { paid: true } });
    const { status, body } = await ship(order.id);
    expect(status).toBe(201);
    expect(body).toMatchObject({ status: 'shipped', version: 3 });
    expect(await read(service.as('viewer'), order.id)).toEqual(body);
  });

  it('is not asked of other transitions', async () => {
    const { id } = await place(service.as('operator'));
    const confirmed = await service.as('operator').post(`/v1/orders/${id}/transitions`, { to: 'confirmed' });
    expect(confirmed.status).toBe(201);
  });

  it.each([
    ['pending', 'illegal-transition', 409],
    ['shipped', 'already-in-state', 409],
    ['delivered', 'illegal-transition', 409],
  ])('does not hide that an order is %s', async (state, code, status) => {
    const { id } = await place(service.as('operator'), { metadata: { paid: true } });
    for (const to of ['confirmed', 'shipped', 'delivered'].slice(
      0,
      ['confirmed', 'shipped', 'delivered'].indexOf(state) + 1,
    )) {
      await service.as('operator').post(`/v1/orders/${id}/transitions`, { to });
    }
    const answer = await ship(id);
    expect([answer.status, answer.body.code]).toEqual([status, code]);
  });

  it('does not tell a viewer what it thinks before the role is asked', async () => {
    const { id } = await placeIn(service.as('operator'), 'confirmed');
    const answer = await service.as('viewer').post<ProblemAnswer>(`/v1/orders/${id}/transitions`, { to: 'shipped' });
    expect([answer.status, answer.body.code]).toEqual([403, 'role-required']);
    expect(answer.body.roles).toEqual(['operator', 'admin']);
  });

  it('is not asked in vain when the reason is missing that the rule requires', async () => {
    const { id } = await place(service.as('operator'));
    const cancel = (body: object) => service.as('operator').post<ProblemAnswer>(`/v1/orders/${id}/transitions`, body);
    expect((await cancel({ to: 'canceled' })).body.code).toBe('reason-required');
    expect((await cancel({ to: 'canceled', reason: 'x' })).body.code).toBe('guard-refused');
  });

  it('says in GET transitions what blocks the way, besides the role', async () => {
    const { id } = await placeIn(service.as('operator'), 'confirmed');
    const possible = async (role: string) => {
      const path = `/v1/orders/${id}/transitions`;
      const { body } = await service.as(role).get<{ transitions: { to: string; blockedBy: unknown[] }[] }>(path);
      return body.transitions.find(({ to }) => to === 'shipped');
    };
    const paid = { code: 'paid', detail: 'The order is not paid.' };
    expect(await possible('operator')).toMatchObject({ allowed: false, blockedBy: [paid] });
    expect(await possible('viewer')).toMatchObject({ allowed: false, blockedBy: [{ code: 'role-required' }, paid] });
  });

  it('sees the order locked: it cannot change between its answer and the transition', async () => {
    const paid = await placeIn(service.as('operator'), 'confirmed', { metadata: { paid: true } });
    const results = await Promise.all(
      Array.from({ length: 10 }, async (_, i) =>
        i % 2 === 0
          ? (await ship(paid.id)).status
          : (
              await service
                .as('operator')
                .patch(`/v1/orders/${paid.id}`, { metadata: { paid: false } }, { 'if-match': '*' })
            ).status,
      ),
    );
    expect(results.filter((status) => status >= 500)).toEqual([]);
    const events = await service
      .as('viewer')
      .get<{ data: { type: string; body: string }[] }>(`/v1/orders/${paid.id}/events`);
    const shipped = events.body.data.find(({ type }) => type === 'order.shipped');
    if (shipped) {
      expect((JSON.parse(shipped.body) as { snapshot: Order }).snapshot.metadata).toEqual({ paid: true });
    }
  });
});

describe('a hook that an extension brings', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp({ extensions: [HookModule] });
  });
  afterAll(() => service.close());

  const go = (id: string, body: object) =>
    service.as('operator').post<Order & ProblemAnswer>(`/v1/orders/${id}/transitions`, body);

  it('runs in the same transaction, and the answer has what it did', async () => {
    const { id } = await place(service.as('operator'));
    const { status, body, headers } = await go(id, { to: 'confirmed', reason: 'checked' });
    expect(status).toBe(201);
    expect(body).toMatchObject({ status: 'confirmed', version: 3, metadata: { noted: true } });
    expect(headers.get('etag')).toBe('"3"');
    expect(await read(service.as('viewer'), id)).toEqual(body);
    const [confirmed] = await rows<{ eventId: string; keyDigest: string }>(
      service.database.superuserUrl,
      `SELECT event_id AS "eventId", body::json ->> 'keyDigest' AS "keyDigest" FROM audit.events WHERE stream = $1 AND version = 2`,
      [`order/${id}`],
    );
    expect(NoteHook.seen.at(-1)).toEqual({
      machine: 'order',
      entityId: id,
      from: 'pending',
      to: 'confirmed',
      reason: 'checked',
      version: 2,
      eventId: confirmed?.eventId,
      operationKey: confirmed?.keyDigest,
    });
    expect(confirmed?.keyDigest).toMatch(/^[0-9a-f]{64}$/);
    const xmins = await rows<{ same: boolean }>(
      service.database.superuserUrl,
      `SELECT count(DISTINCT xmin::text) = 1 AS same FROM audit.events WHERE stream = $1 AND version > 1`,
      [`order/${id}`],
    );
    expect(xmins).toEqual([{ same: true }]);
  });

  it('runs only with the changes that its selector matches', async () => {
    const { id } = await place(service.as('operator'));
    const before = NoteHook.seen.length;
    expect((await go(id, { to: 'canceled', reason: 'x' })).status).toBe(201);
    expect(NoteHook.seen).toHaveLength(before);
  });

  it('does not run when the transition is refused', async () => {
    const { id } = await placeIn(service.as('operator'), 'delivered');
    const before = NoteHook.seen.length;
    expect((await go(id, { to: 'confirmed' })).status).toBe(409);
    expect(NoteHook.seen).toHaveLength(before);
  });

  it('fault 2: that throws leaves no state, no history and no event', async () => {
    const order = await placeIn(service.as('operator'), 'confirmed');
    const before = await countRows(service.database.superuserUrl);
    const { status, body } = await go(order.id, { to: 'canceled', reason: 'x' });
    expect(status).toBe(500);
    expect(body).toMatchObject({ code: 'internal-error' });
    expect(JSON.stringify(body)).not.toContain('warehouse');
    expect(await read(service.as('viewer'), order.id)).toEqual(order);
    expect(await countRows(service.database.superuserUrl)).toEqual(before);
    expect((await go(order.id, { to: 'shipped' })).status).toBe(201);
  });
});

describe('the start fails', () => {
  const failure = async (statements: string[], extensions: Type<unknown>[] = []) => {
    const database = await databaseWith(...statements);
    try {
      const service = await startTestApp({ database, extensions });
      await service.close();
      return 'it started';
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    } finally {
      await database.drop();
    }
  };

  it('when a rule names a guard that no provider has, and says which', async () => {
    const message = await failure([guardShipping]);
    expect(message).toContain("the rule confirmed → shipped names the guard 'paid', but no provider has it");
    expect(message).toContain("@TransitionGuard('paid')");
    expect(message).toContain("'weekday'");
  });

  it('when a state cannot be reached, and says what to do', async () => {
    const message = await failure([
      `INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles) VALUES ('order', 'lost', 'found', '{admin}')`,
    ]);
    expect(message).toContain("state 'lost' can't be reached from the initial state 'pending'");
    expect(message).toContain("state 'found'");
  });

  it('when nobody may take a rule', async () => {
    expect(await failure([`UPDATE waybill.valid_transitions SET roles = '{}' WHERE to_state = 'shipped'`])).toContain(
      'has no roles, so nobody may take it',
    );
  });

  it('when two providers claim one name', async () => {
    @TransitionGuard('paid')
    class SecondGuard extends PaidGuard {}
    @Module({ providers: [SecondGuard] })
    class SecondModule {}
    expect(await failure([], [GuardModule, SecondModule])).toContain(
      "Two providers are marked @TransitionGuard('paid')",
    );
  });

  it('when a rule names a guard for a step that only follows what a payment provider did', async () => {
    const guardAuthorized = `UPDATE waybill.valid_transitions SET guards = '{paid}' WHERE machine = 'payment' AND to_state = 'authorized'`;
    expect(await failure([guardAuthorized], [GuardModule])).toContain(
      'names guards, but that step only follows what happened elsewhere',
    );
  });

  it('but not when an extension brings a guard that no rule names', async () => {
    expect(await failure([], [GuardModule])).toBe('it started');
  });
});
