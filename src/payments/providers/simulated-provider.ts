import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { canonicalJson } from '../../common/index.js';
import {
  type PaymentProvider,
  type ProviderEvent,
  type ProviderRequest,
  type ProviderResult,
  ResultUnknown,
  WebhookRefused,
} from './payment-provider.js';
import { membersOf, type RawFact, readEvent } from './provider-event.js';
import { isFreshSignature, isSignedBy } from './simulated-signature.js';
import { type Fault, faultOf } from './simulated-token.js';

const DAY = 86_400;
const NOT_SIGNED = 'The Simulated-Signature header does not fit the body, or is too old.';

interface BookedAnswer {
  refused?: string;
  reference?: string;
  amount?: number;
}

/**
 * A provider in this process whose books are a schema of the database that no payment's transaction touches. Test tokens
 * say what happens: `tok_approve`, `tok_declined_<code>`, `tok_<fault>`, `tok_<operation>_<fault>`,
 * `tok_<operation>_declined`, `tok_chaos`; every other token is approved.
 */
@Injectable()
export class SimulatedProvider implements PaymentProvider {
  readonly name = 'simulated';
  readonly replaySeconds = DAY;
  /** How long the slow ones take, and how long one waits for those that never answer, in milliseconds. */
  patience = { slowness: 1000, silence: 2000 };

  constructor(private readonly dataSource: DataSource) {}

  async perform(request: ProviderRequest, signal: AbortSignal): Promise<ProviderResult> {
    const { key, operation } = request;
    const token = await this.tokenOf(request);
    const arrivals = await this.arrive(request, token);
    const fault = faultOf(token, operation, key, arrivals);
    return this.withFault(fault, signal, () => this.book(request, token));
  }

  async lookUp({ key, operation }: ProviderRequest): Promise<ProviderResult | null> {
    const [entry] = await this.dataSource.query<{ reference: string; amount: number }[]>(
      `SELECT reference, amount FROM simulated_provider.ledger
       WHERE metadata ->> 'waybill_key' = $1 AND operation = $2`,
      [key, operation],
    );
    return entry ? { kind: 'succeeded', ...entry } : null;
  }

  expectSignature(headers: Readonly<Record<string, unknown>>): void {
    const signature = headers['simulated-signature'];
    if (typeof signature !== 'string' || !isFreshSignature(signature)) throw new WebhookRefused(NOT_SIGNED);
  }

  async readEvent(body: Buffer, headers: Readonly<Record<string, unknown>>): Promise<ProviderEvent> {
    const [row] = await this.dataSource.query<{ secret: string }[]>(
      'SELECT secret FROM simulated_provider.webhook_secret',
    );
    const signature = headers['simulated-signature'];
    if (!row || typeof signature !== 'string' || !isSignedBy(row.secret, body, signature)) {
      throw new WebhookRefused(NOT_SIGNED);
    }
    const { id, type, metadata, fact } = membersOf(JSON.parse(body.toString()) as unknown);
    const isMeant = fact !== null && fact !== undefined;
    const digest = createHash('sha256').update(body).digest('hex');
    return readEvent({ id, type, metadata, fact: isMeant ? (membersOf(fact) as unknown as RawFact) : null }, digest);
  }

  /** The provider knows its payments' tokens; only a new payment brings one. */
  private async tokenOf(request: ProviderRequest): Promise<string> {
    if (request.operation === 'authorize') return request.paymentMethod;
    const [intent] = await this.dataSource.query<{ token: string }[]>(
      'SELECT token FROM simulated_provider.intents WHERE id = $1',
      [request.paymentRef],
    );
    return intent?.token ?? '';
  }

  private async arrive(request: ProviderRequest, token: string): Promise<number> {
    const fingerprint = createHash('sha256')
      .update(canonicalJson({ ...request, token }))
      .digest('hex');
    const [row] = await this.dataSource.query<{ arrivals: number }[]>(
      'SELECT simulated_provider.arrive($1, $2) AS arrivals',
      [request.key, fingerprint],
    );
    return row?.arrivals ?? 1;
  }

  private async book(request: ProviderRequest, token: string): Promise<ProviderResult> {
    const { key, operation, currency, amount, metadata } = request;
    const intent = operation === 'authorize' ? null : request.paymentRef;
    const [row] = await this.dataSource.query<{ answer: BookedAnswer }[]>(
      'SELECT simulated_provider.perform($1, $2, $3, $4, $5, $6, $7) AS answer',
      [key, operation, intent, token, currency, amount, metadata],
    );
    const { refused, reference = '', amount: booked = 0 } = row?.answer ?? {};
    return refused === undefined
      ? { kind: 'succeeded', reference, amount: booked }
      : { kind: 'refused', code: refused, reference: null };
  }

  private async withFault(
    fault: Fault | null,
    signal: AbortSignal,
    book: () => Promise<ProviderResult>,
  ): Promise<ProviderResult> {
    const { slowness, silence } = this.patience;
    switch (fault) {
      case null:
        return book();
      case 'slow':
        await sleep(slowness, undefined, { signal });
        return book();
      case 'timeout_before':
        await sleep(silence, undefined, { signal });
        throw new ResultUnknown('The simulated provider did not answer in time.');
      case 'timeout_after':
        await book();
        await sleep(silence, undefined, { signal });
        throw new ResultUnknown('The simulated provider did not answer in time.');
      case 'error_before':
        throw new ResultUnknown('The simulated provider answered 500.');
      case 'error_after':
        await book();
        throw new ResultUnknown('The simulated provider answered 500.');
      case 'conflict':
        throw new ResultUnknown('The simulated provider answered 409: a request with this key is still running there.');
      case 'rate_limited':
        throw new ResultUnknown('The simulated provider answered 429.');
      default:
        return fault satisfies never;
    }
  }
}
