import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** How the next request for some path is treated; the request is carried out first when `after` says so. */
export type Misbehaviour =
  | 'timeout-before'
  | 'timeout-after'
  | 'reset-before'
  | 'reset-after'
  | 'conflict'
  | 'rate-limited'
  | 'error-before'
  | 'error-after'
  | 'error-kept'
  | 'should-retry';

export interface Intent {
  id: string;
  object: 'payment_intent';
  amount: number;
  amount_capturable: number;
  amount_received: number;
  currency: string;
  status: string;
  metadata: Record<string, string>;
  cancellation_reason: null;
  last_payment_error: null;
}

export interface StripeRefund {
  id: string;
  object: 'refund';
  amount: number;
  currency: string;
  payment_intent: string;
  status: string;
  metadata: Record<string, string>;
}

interface Kept {
  parameters: string;
  status: number;
  body: unknown;
}

/** A request as it arrived. */
export interface SeenRequest {
  method: string;
  path: string;
  key: string | undefined;
  authorization: string | undefined;
  parameters: URLSearchParams;
}

/**
 * A server on this machine that speaks as much of Stripe's wire format as payments need: form-encoded requests, JSON
 * answers and errors, idempotency keys that are compared with their parameters, and misbehaviour to order.
 */
export class FakeStripe {
  readonly requests: SeenRequest[] = [];
  readonly intents = new Map<string, Intent>();
  readonly refunds: StripeRefund[] = [];
  private readonly kept = new Map<string, Kept>();
  private readonly orders: Misbehaviour[] = [];

  private constructor(private readonly server: Server) {}

  static async start(): Promise<FakeStripe> {
    const server = createServer();
    const stripe = new FakeStripe(server);
    server.on('request', (request, response) => void stripe.serve(request, response));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return stripe;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** The next POSTs misbehave in this order. */
  misbehave(...orders: Misbehaviour[]): void {
    this.orders.push(...orders);
  }

  /** As Stripe does after a day. */
  forgetKeys(): void {
    this.kept.clear();
  }

  /** What is held and not yet taken or let go, and what was taken, of an order. */
  chargesOf(orderId: string): { held: number; taken: number; intents: number } {
    const own = [...this.intents.values()].filter(({ metadata }) => metadata.waybill_order === orderId);
    return {
      held: own.reduce((sum, { amount_capturable: held }) => sum + held, 0),
      taken: own.reduce((sum, { amount_received: taken }) => sum + taken, 0),
      intents: own.length,
    };
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const url = new URL(request.url ?? '', this.url);
    const method = request.method ?? '';
    const text = Buffer.concat(chunks).toString();
    const parameters = method === 'POST' ? new URLSearchParams(text) : url.searchParams;
    const key = request.headers['idempotency-key'] as string | undefined;
    this.requests.push({ method, path: url.pathname, key, authorization: request.headers.authorization, parameters });
    if (method === 'GET') {
      this.respond(response, ...this.read(url.pathname, parameters));
      return;
    }
    const misbehaviour = this.orders.shift();
    const carriesOut = misbehaviour === undefined || misbehaviour.endsWith('-after') || misbehaviour === 'should-retry';
    const [status, body] = carriesOut ? this.once(key, url.pathname, text, parameters) : [500, null];
    switch (misbehaviour) {
      case undefined:
        this.respond(response, status, body);
        break;
      case 'timeout-before':
      case 'timeout-after':
        break; // the client gives up
      case 'reset-before':
      case 'reset-after':
        request.socket.resetAndDestroy();
        break;
      case 'conflict':
        this.respond(response, 409, apiError('invalid_request_error', { code: 'idempotency_key_in_use' }));
        break;
      case 'rate-limited':
        this.respond(response, 429, apiError('invalid_request_error', { code: 'rate_limit' }));
        break;
      case 'should-retry':
        this.respond(response, 409, apiError('invalid_request_error', { code: 'lock_timeout' }), {
          'stripe-should-retry': 'true',
        });
        break;
      case 'error-kept':
        // Stripe keeps even a 500 under the key, and says that it would be answered again.
        this.kept.set(key ?? '', { parameters: text, status: 500, body: apiError('api_error') });
        this.carryOut(url.pathname, parameters);
        this.respond(response, 500, apiError('api_error'), { 'stripe-should-retry': 'false' });
        break;
      case 'error-before':
      case 'error-after':
        this.respond(response, 500, apiError('api_error'));
        break;
      default:
        misbehaviour satisfies never;
    }
  }

  private once(key: string | undefined, path: string, text: string, parameters: URLSearchParams): [number, unknown] {
    const known = key === undefined ? undefined : this.kept.get(key);
    if (known && known.parameters !== text) return [400, apiError('idempotency_error')];
    if (known) return [known.status, known.body];
    const [status, body] = this.carryOut(path, parameters);
    if (key !== undefined) this.kept.set(key, { parameters: text, status, body: structuredClone(body) });
    return [status, body];
  }

  private carryOut(path: string, parameters: URLSearchParams): [number, unknown] {
    if (path === '/v1/payment_intents') return this.create(parameters);
    if (path === '/v1/refunds') return this.refund(parameters);
    const [, id = '', step] = /^\/v1\/payment_intents\/([^/]+)\/(capture|cancel)$/.exec(path) ?? [];
    const intent = this.intents.get(id);
    if (!intent) return [404, apiError('invalid_request_error', { code: 'resource_missing' })];
    if (intent.status !== 'requires_capture') {
      return [400, apiError('invalid_request_error', { code: 'payment_intent_unexpected_state' })];
    }
    intent.status = step === 'capture' ? 'succeeded' : 'canceled';
    intent.amount_received = step === 'capture' ? Number(parameters.get('amount_to_capture')) : 0;
    intent.amount_capturable = 0;
    return [200, intent];
  }

  private create(parameters: URLSearchParams): [number, unknown] {
    const [, decline] = /^pm_card_declined_(\w+)$/.exec(parameters.get('payment_method') ?? '') ?? [];
    const amount = Number(parameters.get('amount'));
    const intent: Intent = {
      id: `pi_${this.intents.size + 1}`,
      object: 'payment_intent',
      amount,
      amount_capturable: decline ? 0 : amount,
      amount_received: 0,
      currency: parameters.get('currency') ?? '',
      status: decline ? 'requires_payment_method' : 'requires_capture',
      metadata: metadataOf(parameters),
      cancellation_reason: null,
      last_payment_error: null,
    };
    this.intents.set(intent.id, intent);
    if (!decline) return [200, intent];
    return [402, apiError('card_error', { code: 'card_declined', decline_code: decline, payment_intent: intent })];
  }

  private refund(parameters: URLSearchParams): [number, unknown] {
    const intent = this.intents.get(parameters.get('payment_intent') ?? '');
    if (!intent) return [404, apiError('invalid_request_error', { code: 'resource_missing' })];
    const amount = Number(parameters.get('amount'));
    const given = this.refunds.filter((refund) => refund.payment_intent === intent.id);
    if (amount > intent.amount_received - given.reduce((sum, refund) => sum + refund.amount, 0)) {
      return [400, apiError('invalid_request_error', { code: 'charge_already_refunded' })];
    }
    const refund: StripeRefund = {
      id: `re_${this.refunds.length + 1}`,
      object: 'refund',
      amount,
      currency: intent.currency,
      payment_intent: intent.id,
      status: 'succeeded',
      metadata: metadataOf(parameters),
    };
    this.refunds.push(refund);
    return [200, refund];
  }

  private read(path: string, parameters: URLSearchParams): [number, unknown] {
    if (path === '/v1/payment_intents/search') {
      const [, key] = /metadata\['waybill_key'\]:'([0-9a-f]+)'/.exec(parameters.get('query') ?? '') ?? [];
      const data = [...this.intents.values()].filter(({ metadata }) => metadata.waybill_key === key);
      return [200, { object: 'search_result', data, has_more: false, url: path }];
    }
    if (path === '/v1/refunds') {
      const data = this.refunds.filter((refund) => refund.payment_intent === parameters.get('payment_intent'));
      return [200, { object: 'list', data, has_more: false, url: path }];
    }
    const intent = this.intents.get(path.replace('/v1/payment_intents/', ''));
    return intent ? [200, intent] : [404, apiError('invalid_request_error', { code: 'resource_missing' })];
  }

  private respond(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
    const common = { 'content-type': 'application/json', 'request-id': `req_${this.requests.length}` };
    response.writeHead(status, { ...common, ...headers }).end(JSON.stringify(body));
  }
}

function apiError(type: string, more: Record<string, unknown> = {}): unknown {
  return { error: { type, message: `a ${type} of the fake`, ...more } };
}

function metadataOf(parameters: URLSearchParams): Record<string, string> {
  return Object.fromEntries(
    [...parameters].flatMap(([name, value]) => {
      const [, member] = /^metadata\[(\w+)\]$/.exec(name) ?? [];
      return member ? [[member, value]] : [];
    }),
  );
}
