import { Module } from '@nestjs/common';
import { afterAll, beforeAll, beforeEach, expect, it } from '@jest/globals';
import type { TenantTransaction } from '../../../src/database/index.js';
import {
  AfterTransition,
  type TransitionChange,
  type TransitionFollowUpProvider,
  TransitionGuard,
  type TransitionGuardProvider,
  TransitionHook,
  type TransitionHookProvider,
} from '../../../src/workflow/index.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import type { ProblemAnswer } from '../../support/builders.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { place } from '../../support/orders.js';
import {
  authorize,
  deliver,
  held,
  ledgerOf,
  readPayment,
  simulatedEvent,
  step,
  taken,
  TOTAL,
} from '../../support/payments.js';
import { rows } from '../../support/sql.js';

@TransitionGuard('books-open')
class BooksOpenGuard implements TransitionGuardProvider {
  static closed = false;
  async refuse(): Promise<string | null> {
    return BooksOpenGuard.closed ? 'The books are closed.' : null;
  }
}

type Seen = Pick<TransitionChange, 'machine' | 'from' | 'to'>;
const hooked: Seen[] = [];
const followed: Seen[] = [];

@TransitionHook({ machine: 'payment' })
class PaymentHook implements TransitionHookProvider {
  async run(tx: TenantTransaction, { machine, entityId, from, to }: TransitionChange): Promise<void> {
    // The hook sees the step that it belongs to: it runs in the same transaction.
    const [payment] = await tx.adHocRows<{ status: string }>(
      'SELECT status FROM waybill.payments WHERE tenant_id = $1 AND id = $2',
      [tx.context.tenantId, entityId],
    );
    expect(payment?.status).toBe(to);
    hooked.push({ machine, from, to });
  }
}

@TransitionHook({ machine: 'refund', to: 'succeeded' })
class RefundHook implements TransitionHookProvider {
  async run(_tx: TenantTransaction, { machine, from, to }: TransitionChange): Promise<void> {
    hooked.push({ machine, from, to });
  }
}

@AfterTransition({ machine: 'payment', to: 'captured' })
class CapturedFollowUp implements TransitionFollowUpProvider {
  async run({ machine, from, to }: TransitionChange): Promise<void> {
    followed.push({ machine, from, to });
  }
}

@Module({ providers: [BooksOpenGuard, PaymentHook, RefundHook, CapturedFollowUp] })
class BooksModule {}

let service: TestApp;
let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  await rows(
    database.superuserUrl,
    `UPDATE waybill.valid_transitions SET guards = '{books-open}' WHERE machine = 'payment' AND to_state = 'capturing'`,
  );
  service = await startTestApp({ extensions: [BooksModule], database });
});
afterAll(async () => {
  await service.close();
  await database.drop();
});
beforeEach(() => {
  hooked.length = 0;
  followed.length = 0;
});

const operator = () => service.as('operator');

it('a guard is asked before the provider is: what it refuses is neither written nor called', async () => {
  const payment = await held(operator());
  BooksOpenGuard.closed = true;
  const refused = await step<ProblemAnswer>(operator(), payment.id, 'captures');
  BooksOpenGuard.closed = false;
  expect(refused).toMatchObject({ status: 409, body: { code: 'guard-refused', guards: [{ code: 'books-open' }] } });
  expect(await readPayment(operator(), payment.id)).toEqual(payment);
  expect((await ledgerOf(database.superuserUrl, payment.orderId)).map(({ operation }) => operation)).toEqual([
    'authorize',
  ]);
  expect((await step(operator(), payment.id, 'captures')).status).toBe(201);
});

it('hooks run in the transaction of each step, and what follows once it is committed', async () => {
  const payment = await taken(operator());
  await step(operator(), payment.id, 'refunds');
  expect(hooked).toEqual([
    { machine: 'payment', from: 'processing', to: 'authorized' },
    { machine: 'payment', from: 'authorized', to: 'capturing' },
    { machine: 'payment', from: 'capturing', to: 'captured' },
    { machine: 'payment', from: 'captured', to: 'refunded' },
    { machine: 'refund', from: 'processing', to: 'succeeded' },
  ]);
  expect(followed).toEqual([{ machine: 'payment', from: 'capturing', to: 'captured' }]);
});

it('they run for what a webhook tells as well, once', async () => {
  const order = await place(operator());
  expect((await authorize(operator(), order.id, 'tok_error_after')).status).toBe(503);
  const [payment] = await rows<{ id: string }>(
    database.superuserUrl,
    'SELECT id FROM waybill.payments WHERE order_id = $1',
    [order.id],
  );
  const [entry] = await ledgerOf(database.superuserUrl, order.id);
  const fact = { subject: 'payment', fact: 'authorized', reference: entry?.reference ?? '', amount: TOTAL } as const;
  const event = await simulatedEvent(service, payment?.id ?? '', 'authorize', fact);
  for (let sent = 0; sent < 2; sent += 1) expect((await deliver(operator(), event)).status).toBe(200);
  expect(hooked).toEqual([{ machine: 'payment', from: 'processing', to: 'authorized' }]);
});
