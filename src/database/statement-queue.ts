import type { ClientBase } from 'pg';
import { SteadyClient } from './client.js';
import type { AnyStatement } from './statement.js';
import { type PendingStatement, StatementBatch, type StatementResult } from './statement-batch.js';

/**
 * The statements of one connection. Those that are sent before the process turns to something else leave in one packet: a
 * system call for us and a wake-up for PostgreSQL, however many they are.
 */
export class StatementQueue {
  private pending: PendingStatement[] = [];
  private failure: { error: unknown } | undefined;

  /** @param client left out where the connection is yet to come; until `attach` statements wait */
  constructor(private client?: ClientBase) {}

  run(statement: AnyStatement): Promise<StatementResult> {
    return new Promise((resolve, reject) => this.add({ statement, resolve, reject }));
  }

  /** For a statement that another one follows at once: where this one fails, that one fails with the same error. */
  runUnawaited(statement: AnyStatement): void {
    this.add({ statement });
  }

  /** The connection has come: what waits leaves. */
  attach(client: ClientBase): void {
    this.client = client;
    this.flush();
  }

  /** No connection will come: whoever waits for an answer, now or later, gets the error. */
  fail(error: unknown): void {
    this.failure = { error };
    const { pending } = this;
    this.pending = [];
    for (const { reject } of pending) reject?.(error);
  }

  /** Sends now what waits, so that what somebody else sends over the connection comes behind it. */
  flush(): void {
    if (!this.client || this.pending.length === 0) return;
    const batch = new StatementBatch(forPooler(this.client, this.pending));
    this.pending = [];
    this.client.query(batch);
  }

  private add(pending: PendingStatement): void {
    if (this.failure) {
      pending.reject?.(this.failure.error);
      return;
    }
    // Runs when everything is done that can be done without waiting, such as a handler up to its first statement.
    if (this.client && this.pending.length === 0) process.nextTick(() => this.flush());
    this.pending.push(pending);
  }
}

/**
 * Behind a pooler each transaction may be on another session: settings go with it, and no statement is prepared for later.
 */
function forPooler(client: ClientBase, pending: PendingStatement[]): PendingStatement[] {
  const settings = client instanceof SteadyClient ? client.transactionSettings : null;
  if (!settings) return pending;
  return pending.flatMap(({ statement: { name: _name, ...statement }, ...asker }) => [
    { statement, ...asker },
    ...(statement.begins ? [{ statement: settings }] : []),
  ]);
}
