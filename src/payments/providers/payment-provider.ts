/** What a provider is asked to do; amounts in minor units. */
export type ProviderRequest = {
  /** The provider does it once for each key, for as long as it remembers keys. */
  key: string;
  amount: number;
  currency: string;
  /** Kept by the provider and sent along with its events, so that they find their payment. */
  metadata: ProviderMetadata;
} & (
  | { operation: 'authorize'; paymentMethod: string }
  | {
      operation: 'capture' | 'void' | 'refund';
      /** The provider's name of the payment. */
      paymentRef: string;
    }
);

/** The same for every repetition of a request: no row's id, which a failover could lose. */
export interface ProviderMetadata {
  waybill_tenant: string;
  waybill_order: string;
  waybill_key: string;
}

/** What is certain to have happened. */
export type ProviderResult =
  | {
      kind: 'succeeded';
      /** The provider's name of the payment, or of the refund. */
      reference: string;
      /** What was really held, taken or given back. */
      amount: number;
    }
  | { kind: 'refused'; code: string; reference: string | null };

/** What an event of a provider says, without what it was that led to it. */
export type ProviderFact =
  | {
      subject: 'payment';
      fact: 'authorized' | 'declined' | 'captured' | 'voided';
      reference: string;
      amount: number | null;
      code: string | null;
    }
  | {
      subject: 'refund';
      fact: 'succeeded' | 'failed';
      reference: string;
      amount: number | null;
      code: string | null;
      /** Who gave it back, where it was none of our requests: somebody at the provider (left out), or a bank. */
      cause?: 'provider' | 'dispute';
    };

/** An event whose signature was right; `readEvent` of provider-event.ts makes it of whatever it says. */
export interface ProviderEvent {
  id: string;
  type: string;
  /** From metadata that we set; null where there is none. */
  tenantId: number | null;
  key: string | null;
  /** The provider's name of the payment, for events that carry no metadata of ours. */
  paymentRef: string | null;
  /** Null for events that mean nothing to us, and for those with a problem. */
  fact: ProviderFact | null;
  /** Why an event that means something can't be read; for a person. */
  problem: string | null;
}

/** A payment provider, or what stands in for one. */
export interface PaymentProvider {
  readonly name: string;
  /** How long the same key is sure to give the same result, in seconds from the first request. */
  readonly replaySeconds: number;
  /**
   * Does it, or finds that it was done under this key before. Every error means that it may or may not have happened.
   */
  perform(request: ProviderRequest, signal: AbortSignal): Promise<ProviderResult>;
  /** What became of a request, without repeating it; null when the provider has no trace of it. */
  lookUp(request: ProviderRequest, signal: AbortSignal): Promise<ProviderResult | null>;
  /**
   * Checks what can be checked of a signature without the body: that there is one, its form and its age.
   *
   * @throws WebhookRefused
   */
  expectSignature(headers: Readonly<Record<string, unknown>>): void;
  /**
   * Checks the signature over the very bytes, and its age. Nothing of the body is parsed before that.
   *
   * @throws WebhookRefused
   */
  readEvent(body: Buffer, headers: Readonly<Record<string, unknown>>): Promise<ProviderEvent>;
}

/** An event that isn't the provider's, or is too old to be believed. */
export class WebhookRefused extends Error {
  override readonly name = 'WebhookRefused';
}

/** The call's result is unknown, or will be known only later. The message holds no secrets. */
export class ResultUnknown extends Error {
  override readonly name = 'ResultUnknown';
}
