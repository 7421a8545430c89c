import { createHash } from 'node:crypto';
import { Stripe } from 'stripe';
import {
  type PaymentProvider,
  type ProviderEvent,
  type ProviderRequest,
  type ProviderResult,
  ResultUnknown,
  WebhookRefused,
} from './payment-provider.js';
import { eventOf } from './stripe-events.js';
import { fromStripeAmount, toStripeAmount } from './stripe-money.js';

export interface StripeSettings {
  apiKey: string;
  /** Another address than Stripe's, for tests. */
  apiBase: string | null;
  /** Null refuses all webhooks. */
  webhookSecret: string | null;
}

/** Stripe forgets keys after 24 hours at the earliest; an hour of that is left for clocks and for calls under way. */
const REPLAY_SECONDS = 23 * 3600;
/** Requests to look up refunds by; a payment with more refunds than this is for a person. */
const REFUND_PAGE = 100;
/** How old an event may be, in seconds. */
const TOLERANCE = 300;
const NOT_SIGNED = 'The Stripe-Signature header does not fit the body, or is too old.';

/** Cards by Stripe's Payment Intents: held by confirming, taken by capturing. */
export class StripeProvider implements PaymentProvider {
  readonly name = 'stripe';
  readonly replaySeconds = REPLAY_SECONDS;

  constructor(private readonly settings: StripeSettings) {}

  async perform(request: ProviderRequest, signal: AbortSignal): Promise<ProviderResult> {
    const amount = toStripeAmount(request.amount, request.currency);
    if (amount === null) return { kind: 'refused', code: 'amount_not_supported', reference: null };
    const client = this.client(signal);
    try {
      return await send(client, request, amount);
    } catch (error) {
      return await this.judge(error, request, signal);
    }
  }

  async lookUp(request: ProviderRequest, signal: AbortSignal): Promise<ProviderResult | null> {
    const client = this.client(signal);
    try {
      return await find(client, request);
    } catch (error) {
      if (error instanceof Stripe.errors.StripeInvalidRequestError && error.statusCode === 404) return null;
      throw unknown(error);
    }
  }

  expectSignature(headers: Readonly<Record<string, unknown>>): void {
    const { signature } = this.signatureOf(headers);
    const [, seconds] = /(?:^|,)t=(\d{1,12})(?:,|$)/.exec(signature) ?? [];
    const isFresh = seconds !== undefined && Date.now() / 1000 - Number(seconds) <= TOLERANCE;
    if (!isFresh || !/(?:^|,)v1=[0-9a-f]{64}(?:,|$)/.test(signature)) throw new WebhookRefused(NOT_SIGNED);
  }

  async readEvent(body: Buffer, headers: Readonly<Record<string, unknown>>): Promise<ProviderEvent> {
    const { signature, secret } = this.signatureOf(headers);
    const { signature: check } = Stripe.webhooks;
    if (!check) throw new Error("Stripe's library brings no check of signatures");
    try {
      check.verifyHeader(body, signature, secret, TOLERANCE);
    } catch (error) {
      if (!(error instanceof Stripe.errors.StripeSignatureVerificationError)) throw error;
      throw new WebhookRefused(NOT_SIGNED);
    }
    return eventOf(JSON.parse(body.toString()) as unknown, createHash('sha256').update(body).digest('hex'));
  }

  private signatureOf(headers: Readonly<Record<string, unknown>>): { signature: string; secret: string } {
    const { webhookSecret: secret } = this.settings;
    const signature = headers['stripe-signature'];
    if (!secret || typeof signature !== 'string') throw new WebhookRefused('There is no Stripe-Signature header.');
    return { signature, secret };
  }

  /**
   * A client whose requests end with the signal. Its retries are off: a repetition belongs to whoever holds the lease.
   * Node's own HTTP client would still repeat a request whose connection broke, which fetch's errors don't set off.
   */
  private client(signal: AbortSignal): Stripe {
    const { apiKey, apiBase } = this.settings;
    const fetchUntil: typeof fetch = (input, init) =>
      fetch(input, { ...init, signal: init?.signal ? AbortSignal.any([signal, init.signal]) : signal });
    const base = apiBase === null ? null : new URL(apiBase);
    return new Stripe(apiKey, {
      maxNetworkRetries: 0,
      telemetry: false,
      httpClient: Stripe.createFetchHttpClient(fetchUntil),
      ...(base && { host: base.hostname, port: base.port, protocol: base.protocol === 'http:' ? 'http' : 'https' }),
    });
  }

  /** A decline and a request that Stripe found wrong are certain. All else may or may not have happened. */
  private async judge(error: unknown, request: ProviderRequest, signal: AbortSignal): Promise<ProviderResult> {
    if (error instanceof Stripe.errors.StripeCardError) {
      const code = error.decline_code ?? error.code ?? 'card_declined';
      return { kind: 'refused', code, reference: error.payment_intent?.id ?? null };
    }
    if (error instanceof Stripe.errors.StripeInvalidRequestError && error.statusCode !== 409) {
      // Perhaps what is asked for was done already, and the key that would have said so is forgotten.
      const done = await this.lookUp(request, signal);
      return done ?? { kind: 'refused', code: error.code ?? 'invalid_request', reference: null };
    }
    throw unknown(error);
  }
}

async function send(client: Stripe, request: ProviderRequest, amount: number): Promise<ProviderResult> {
  const options = { idempotencyKey: request.key };
  const { metadata } = request;
  switch (request.operation) {
    case 'authorize':
      return intentResult(
        await client.paymentIntents.create(
          {
            amount,
            currency: request.currency.toLowerCase(),
            payment_method: request.paymentMethod,
            allowed_payment_method_types: ['card'],
            capture_method: 'manual',
            confirm: true,
            // Nobody is there to pass a check of the bank's: that is a decline.
            error_on_requires_action: true,
            metadata: { ...metadata },
          },
          options,
        ),
        'authorize',
      );
    case 'capture':
      return intentResult(
        await client.paymentIntents.capture(request.paymentRef, { amount_to_capture: amount }, options),
        'capture',
      );
    case 'void':
      return intentResult(await client.paymentIntents.cancel(request.paymentRef, {}, options), 'void');
    case 'refund':
      return refundResult(
        await client.refunds.create({ payment_intent: request.paymentRef, amount, metadata: { ...metadata } }, options),
      );
    default:
      return request satisfies never;
  }
}

async function find(client: Stripe, request: ProviderRequest): Promise<ProviderResult | null> {
  if (request.operation === 'authorize') {
    const query = `metadata['waybill_key']:'${request.key}'`;
    const { data } = await client.paymentIntents.search({ query, limit: 1 });
    const [intent] = data;
    return intent ? intentResult(intent, 'authorize') : null;
  }
  if (request.operation === 'refund') {
    const { data } = await client.refunds.list({ payment_intent: request.paymentRef, limit: REFUND_PAGE });
    const refund = data.find(({ metadata }) => metadata?.waybill_key === request.key);
    return refund ? refundResult(refund) : null;
  }
  const intent = await client.paymentIntents.retrieve(request.paymentRef);
  return intent.status === 'requires_capture' ? null : intentResult(intent, request.operation);
}

/** What a payment intent's state says of an operation on it. */
function intentResult(intent: Stripe.PaymentIntent, operation: 'authorize' | 'capture' | 'void'): ProviderResult {
  const { id: reference, status, currency } = intent;
  const refused = (code: string): ProviderResult => ({ kind: 'refused', code, reference });
  const succeeded = (amount: number): ProviderResult => ({
    kind: 'succeeded',
    reference,
    amount: fromStripeAmount(amount, currency),
  });
  switch (status) {
    case 'requires_capture':
      return operation === 'authorize' ? succeeded(intent.amount) : refused('unexpected_state');
    case 'succeeded':
      if (operation === 'void') return refused('already_captured');
      return succeeded(operation === 'authorize' ? intent.amount : intent.amount_received);
    case 'canceled':
      if (operation === 'capture') return refused(intent.cancellation_reason ?? 'already_voided');
      return succeeded(intent.amount);
    case 'requires_payment_method':
    case 'requires_confirmation':
    case 'requires_action':
      return refused(intent.last_payment_error?.decline_code ?? intent.last_payment_error?.code ?? status);
    case 'processing':
      throw new ResultUnknown('Stripe is still processing the payment.');
    default:
      throw new ResultUnknown('Stripe reports a state that this version does not know.');
  }
}

function refundResult(refund: Stripe.Refund): ProviderResult {
  const { id: reference, status, amount, currency } = refund;
  if (status === 'failed' || status === 'canceled' || status === 'requires_action') {
    return { kind: 'refused', code: refund.failure_reason ?? status, reference };
  }
  return { kind: 'succeeded', reference, amount: fromStripeAmount(amount, currency) };
}

/** Messages of the library can quote the request, so only the kind, the status and Stripe's request id are passed on. */
function unknown(error: unknown): ResultUnknown {
  if (error instanceof ResultUnknown) return error;
  if (error instanceof Stripe.errors.StripeError) {
    const facts = [error.type, error.statusCode, error.requestId].filter((fact) => fact !== undefined);
    return new ResultUnknown(`Stripe gave no certain answer (${facts.join(', ')}).`);
  }
  return new ResultUnknown(`Stripe could not be asked (${error instanceof Error ? error.name : typeof error}).`);
}
