import { Injectable } from '@nestjs/common';
import { type TenantTransaction, type TransactionContext, TransactionRunner } from '../database/index.js';
import { LogGrowth } from './log/log-growth.js';
import { BeyondLog } from './audit.errors.js';
import { type LogPlace, LogReader, type SealedEvent } from './log-reader.js';

export interface FeedRequest {
  /** Log index of the last event that is known; -1 for none. */
  after: number;
  limit: number;
  /** Seconds. */
  wait: number;
}

export interface FeedPage {
  events: SealedEvent[];
  /** Null before anything was sealed. */
  log: LogPlace | null;
}

/** The feed of a tenant: its events in the log's order. */
@Injectable()
export class FeedService {
  constructor(
    private readonly transactions: TransactionRunner,
    private readonly log: LogReader,
    private readonly growth: LogGrowth,
  ) {}

  get isStopping(): boolean {
    return this.growth.isStopping;
  }

  /**
   * Events after one, as soon as there are some. Between two looks neither a connection nor a transaction is held.
   *
   * @param signal ends the waiting when the client is gone
   * @throws BeyondLog
   */
  async next(context: TransactionContext, { after, limit, wait }: FeedRequest, signal: AbortSignal): Promise<FeedPage> {
    const until = performance.now() + wait * 1000;
    for (;;) {
      const page = await this.transactions.run(context, 'read', (tx) => this.page(tx, after, limit));
      const rest = until - performance.now();
      if (page.events.length > 0 || rest <= 0 || signal.aborted || this.growth.isStopping) return page;
      await this.growth.next(context.tenantId, rest, signal);
    }
  }

  /** Nothing after a position is no news, unless the log doesn't reach it. */
  private async page(tx: TenantTransaction, after: number, limit: number): Promise<FeedPage> {
    const [events, log] = await Promise.all([this.log.page(tx, after, limit), this.log.place(tx)]);
    if (events.length > 0 || after < 0) return { events, log };
    const size = await this.log.size(tx);
    if (after >= size) throw new BeyondLog(after, size);
    return { events, log };
  }
}
