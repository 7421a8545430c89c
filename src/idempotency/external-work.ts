import { SetMetadata } from '@nestjs/common';
import type { DomainError } from '../problems/index.js';
import type { TenantTransaction } from '../database/index.js';

/**
 * What a handler with `@Idempotent({ external: true })` returns: a call to another system between two transactions. The
 * call may happen more than once, so it goes out under a key that the other system knows how to deduplicate by.
 */
export interface ExternalWork<Outcome = unknown> {
  /**
   * In the first transaction, which also claims the key: writes what is about to be asked. May run again from the start.
   *
   * @param key the client's idempotency key
   * @returns what a resumer needs to find this again when the process dies during the call
   */
  prepare(tx: TenantTransaction, key: string): Promise<StartedCall>;
  /**
   * With no transaction open. Every error means that nobody knows whether it happened; a refusal that is certain is an
   * outcome. It has to stop when the signal says so.
   */
  call(signal: AbortSignal): Promise<Outcome>;
  /** In the second transaction, which also stores the answer: writes what came of it. May run again from the start. */
  settle(tx: TenantTransaction, outcome: Outcome): Promise<Settlement>;
}

/** Work whose first transaction was committed before, by whichever process. */
export type ResumedWork<Outcome = unknown> = Pick<ExternalWork<Outcome>, 'call' | 'settle'>;

/** The names under which a call that was begun is found again. */
export interface StartedCall {
  /** What the answer is about, as `<kind>/<id>`; the kind says which resumer knows it. */
  resource: string;
  /** Under which the other system knows the call. */
  providerRef: string;
}

/** A call that was begun and not finished, for whoever takes it over. */
export interface UnfinishedCall extends StartedCall {
  /** Since it was begun for the first time, by the database's clock: the other system remembers its key for a while. */
  ageSeconds: number;
  /** How many workers had it, the present one included. */
  attempt: number;
}

/** What the client is told. A problem must be one that keys keep; unlike one that is thrown, it undoes nothing. */
export type Settlement =
  { status: number; headers?: Readonly<Record<string, string>>; body: object } | { problem: DomainError };

/** Finds work again by its resource, for retries and for the recoverer, without the request that began it. */
export interface ExternalWorkResumer {
  /** In a transaction of the tenant, of whoever takes over. */
  resume(tx: TenantTransaction, call: UnfinishedCall): Promise<ResumedWork>;
}

export const RESUMED_KIND = 'waybill:resumes-external-work';

/** Makes a provider the resumer of work whose resource is `<kind>/…`. */
export const ResumesExternalWork = (kind: string): ClassDecorator => SetMetadata(RESUMED_KIND, kind);
