import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { v7 as uuid } from 'uuid';
import { call, command, type NamedStatement, postgresError, type TenantTransaction } from '../database/index.js';
import type { ProviderEvent } from './providers/payment-provider.js';

/**
 * What became of an event: `seen` came before, `conflict` says what can't be so here and is for a person, `unknown` means nothing to us and
 * is kept all the same.
 */
export interface KeptEvent {
  outcome: 'applied' | 'nothing-to-do' | 'conflict' | 'unknown' | 'seen';
  paymentId: string | null;
}

/** The database refused a fact: a payment that is as the provider says can't be here. */
export class FactRefused extends Error {
  override readonly name = 'FactRefused';
}

/** Every query on what providers say by themselves. */
@Injectable()
export class ProviderFactsRepository {
  constructor(private readonly dataSource: DataSource) {}

  /**
   * Keeps an event and applies its fact, once.
   *
   * @param problem keeps it as a conflict, without applying its fact
   * @throws FactRefused for a fact that the database refuses; the transaction is of no use after that
   */
  async keepEvent(
    tx: TenantTransaction,
    provider: string,
    { digest, event: { id, type, key, paymentRef, fact }, problem }: KeptDelivery,
  ): Promise<KeptEvent> {
    const { reference = null, subject = null, fact: what = null, amount = null, code = null } = fact ?? {};
    const cause = fact?.subject === 'refund' ? (fact.cause ?? 'provider') : null;
    const happened = {
      subject,
      fact: what,
      providerRef: reference,
      amount,
      declineCode: code,
      cause,
      newRefund: uuid(),
    };
    const given = { provider, event: id, type, digest, providerKey: key, paymentRef, ...happened, problem };
    const [row] = await factsOf(() => call<KeptEvent, (typeof EVENT)[number]>(tx, KEEP_EVENT, given));
    if (!row) throw new Error('keep_webhook_event returned nothing');
    return row;
  }

  /** The events behind the conflicts of a payment that nobody has resolved, in the order in which they came. */
  async openConflicts(tx: TenantTransaction, paymentId: string): Promise<string[]> {
    const open = await tx.rows<{ event: string }>(OPEN_CONFLICTS, [tx.context.tenantId, paymentId]);
    return open.map(({ event }) => event);
  }

  /**
   * Applies the fact of a conflict after all, and resolves it.
   *
   * @throws FactRefused where it still can't be
   */
  async retryConflict(tx: TenantTransaction, provider: string, event: string): Promise<void> {
    const given = { provider, event, newRefund: uuid() };
    await factsOf(() => call<{ outcome: string }, (typeof CONFLICT)[number]>(tx, RETRY_CONFLICT, given));
  }

  /** The tenant whose payment the provider calls by this name; null when there is none. */
  async tenantOf(provider: string, paymentRef: string): Promise<number | null> {
    const [row] = await this.dataSource.query<{ tenant: number | null }[]>(
      'SELECT payment_inbox.tenant_of($1, $2) AS tenant',
      [provider, paymentRef],
    );
    return row?.tenant ?? null;
  }

  /** Keeps an event that names no tenant of ours. */
  async keepStrayEvent(provider: string, { id, type }: ProviderEvent, digest: Buffer): Promise<void> {
    await this.dataSource.query(
      `INSERT INTO payment_inbox.stray_events (provider, event, type, digest) VALUES ($1, $2, $3, $4)
       ON CONFLICT (provider, event) DO NOTHING`,
      [provider, id, type, digest],
    );
  }
}

const EVENT = [
  ...(['provider', 'event', 'type', 'digest', 'providerKey', 'paymentRef'] as const),
  ...(['subject', 'fact', 'providerRef', 'amount', 'declineCode', 'cause', 'newRefund', 'problem'] as const),
] as const;
const CONFLICT = ['provider', 'event', 'newRefund'] as const;

const KEEP_EVENT = command('keep_webhook_event', 'outcome, payment_id AS "paymentId"', EVENT);
const RETRY_CONFLICT = command('retry_payment_conflict', 'retry_payment_conflict AS outcome', CONFLICT);

/** An event with the SHA-256 of its body, and what keeps it from being applied. */
export interface KeptDelivery {
  event: ProviderEvent;
  digest: Buffer;
  problem: string | null;
}

const OPEN_CONFLICTS: NamedStatement = {
  name: 'open_payment_conflicts',
  text: `SELECT event FROM waybill.payment_conflicts
         WHERE tenant_id = $1 AND payment_id = $2 AND resolved_at IS NULL AND fact IS NOT NULL ORDER BY noticed_at, event`,
};

/** Values that don't fit, rules that are broken, and refusals of our own: what waiting doesn't change. */
const REFUSED = /^(?:22|23|WB)/;

async function factsOf<Row>(rows: () => Promise<Row[]>): Promise<Row[]> {
  try {
    return await rows();
  } catch (error) {
    const { code, constraint, message } = postgresError(error) ?? { code: '', message: '' };
    if (!REFUSED.test(code)) throw error;
    // Messages of PostgreSQL's own can repeat values; ours say what they say on purpose.
    const problem = code.startsWith('WB') ? message : `It would break the rule ${constraint ?? code}.`;
    throw new FactRefused(problem, { cause: error });
  }
}
