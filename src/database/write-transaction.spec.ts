import { describe, expect, it } from '@jest/globals';
import type { QueryRunner } from 'typeorm';
import type { AnyStatement } from './statement.js';
import type { StatementQueue } from './statement-queue.js';
import { WriteTransaction } from './write-transaction.js';

const CONTEXT = { tenantId: 1, userId: null, roles: [], requestId: 'test' };
const READ = { name: 'read', text: 'SELECT 1' };
const COMMAND = { name: 'command', text: 'SELECT waybill.command()', isRefusedUnclaimed: true };

function openedBy(claim: Promise<unknown> | null) {
  const sent: (string | undefined)[] = [];
  const statements = {
    run: ({ name }: AnyStatement) => {
      sent.push(name);
      return Promise.resolve({ rows: [], command: 'SELECT' });
    },
    flush: () => undefined,
  } as unknown as StatementQueue;
  const runner = { manager: {} } as QueryRunner;
  return { tx: new WriteTransaction(CONTEXT, { runner, statements }, claim), sent };
}

describe('a transaction that a claim opens', () => {
  it('lets nothing leave before the answer but what PostgreSQL refuses without a claim', async () => {
    let answer: () => void = () => undefined;
    const { tx, sent } = openedBy(new Promise<void>((resolve) => (answer = resolve)));
    const reading = tx.rows(READ, []);
    await tx.rows(COMMAND, []);
    expect(sent).toEqual(['command']);
    expect(() => tx.manager).toThrow('before the claim of the idempotency key is answered');
    answer();
    await reading;
    expect(sent).toEqual(['command', 'read']);
    expect(tx.manager).toBeDefined();
  });

  it('fails a statement that waits when the claim fails', async () => {
    const { tx, sent } = openedBy(Promise.reject(new Error('no claim')));
    await expect(tx.rows(READ, [])).rejects.toThrow('no claim');
    expect(sent).toEqual([]);
  });
});

it('a transaction that nothing but its context opens sends every statement at once', async () => {
  const { tx, sent } = openedBy(null);
  void tx.rows(READ, []);
  expect(sent).toEqual(['read']);
  expect(tx.manager).toBeDefined();
});
