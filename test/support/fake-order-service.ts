import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

/** An order of the fake service; all of it may be changed to stage what others do. */
export class FakeOrder {
  states: string[] = [];
  reasons: string[] = [];

  constructor(
    readonly id: string,
    readonly channel: unknown,
    readonly externalRef: unknown,
    readonly currency: unknown,
    readonly lines: unknown[],
    public total: number,
  ) {}

  get state(): string {
    return this.states.at(-1) ?? 'pending';
  }

  move(to: string, reason?: string): void {
    this.states.push(to);
    if (reason !== undefined) this.reasons.push(reason);
  }
}

interface Answer {
  status: number;
  body: unknown;
}

const WAYS: Record<string, string[]> = {
  pending: ['confirmed', 'canceled'],
  confirmed: ['shipped', 'canceled'],
  shipped: ['delivered'],
};

/**
 * A few routes of the HTTP API in memory, for clients of it: with or without replay of idempotency keys, and with faults
 * to order. The key that it knows is `secret`.
 */
export class FakeOrderService {
  /** Whether answers are kept under their idempotency key. */
  replays = true;
  /** Every transition is refused by a guard. */
  refuseTransitions = false;
  /** How many orders were placed and steps taken. */
  effects = 0;
  readonly orders = new Map<string, FakeOrder>();
  beforeEffect: () => void = () => {};
  /** A status refuses the request before it has an effect. */
  refuse: () => number | undefined = () => undefined;
  /** True breaks the connection when the effect has happened. */
  dropAnswer: () => boolean = () => false;

  private readonly kept = new Map<string, Answer>();

  private constructor(private readonly server: Server) {}

  static async start(): Promise<FakeOrderService> {
    const server = createServer();
    const service = new FakeOrderService(server);
    server.on('request', (request, response) => void service.serve(request, response));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return service;
  }

  get url(): string {
    const address = this.server.address();
    return `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  find(externalRef: string): FakeOrder {
    const order = [...this.orders.values()].find((one) => one.externalRef === externalRef);
    if (!order) throw new Error(`no order ${externalRef}`);
    return order;
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const refused = this.refuse();
    if (refused !== undefined) {
      respond(response, { status: refused, body: { code: 'unavailable' } }, { 'retry-after': '0' });
      return;
    }
    if (request.headers.authorization !== 'Bearer secret') {
      respond(response, { status: 401, body: { code: 'unauthenticated' } });
      return;
    }
    const key = String(request.headers['idempotency-key'] ?? '');
    const kept = this.replays ? this.kept.get(key) : undefined;
    if (kept) {
      this.finish(response, kept, { 'idempotency-replayed': 'true' });
      return;
    }
    const body: unknown = chunks.length === 0 ? {} : JSON.parse(Buffer.concat(chunks).toString());
    const answer = this.answer(request.method ?? '', request.url ?? '', body as Record<string, unknown>);
    if (key !== '') this.kept.set(key, answer);
    this.finish(response, answer);
  }

  private finish(response: ServerResponse, answer: Answer, headers: Record<string, string> = {}): void {
    if (this.dropAnswer()) response.destroy();
    else respond(response, answer, headers);
  }

  private answer(method: string, path: string, body: Record<string, unknown>): Answer {
    if (path.startsWith('/v1/orders?')) return { status: 200, body: { data: [], next: null } };
    if (method === 'POST' && path === '/v1/orders') return this.place(body);
    const [, id = '', rest] = /^\/v1\/orders\/([^/]+)(\/\w+)?$/.exec(path) ?? [];
    const order = this.orders.get(id);
    if (!order) return { status: 404, body: { code: 'not-found' } };
    if (method === 'POST') return this.move(order, body);
    return { status: 200, body: rest === '/history' ? { data: historyOf(order), next: null } : orderJson(order) };
  }

  private place(body: Record<string, unknown>): Answer {
    const { channel, externalRef, currency, lines, expectedTotal } = body;
    for (const one of this.orders.values()) {
      if (one.channel !== channel || one.externalRef !== externalRef) continue;
      return { status: 409, body: { code: 'external-ref-taken', orderId: one.id } };
    }
    this.beforeEffect();
    this.effects += 1;
    const id = `order-${this.orders.size + 1}`;
    const order = new FakeOrder(id, channel, externalRef, currency, lines as unknown[], Number(expectedTotal));
    this.orders.set(id, order);
    return { status: 201, body: orderJson(order) };
  }

  private move(order: FakeOrder, { to, reason }: Record<string, unknown>): Answer {
    if (this.refuseTransitions) return { status: 409, body: { code: 'guard-refused' } };
    if (order.state === to) return { status: 409, body: { code: 'already-in-state', state: to } };
    const allowed = WAYS[order.state] ?? [];
    if (!allowed.includes(String(to))) return { status: 409, body: { code: 'illegal-transition', allowed } };
    if (to === 'canceled' && reason === undefined) return { status: 422, body: { code: 'reason-required' } };
    this.beforeEffect();
    this.effects += 1;
    order.move(String(to), reason === undefined ? undefined : String(reason));
    return { status: 201, body: orderJson(order) };
  }
}

function historyOf(order: FakeOrder): unknown[] {
  const states = ['pending', ...order.states];
  return states.map((to, at) => ({ from: states[at - 1] ?? null, to }));
}

function orderJson(order: FakeOrder): unknown {
  const { id, channel, externalRef, currency, lines, total, state, states } = order;
  return { id, channel, externalRef, currency, lines, total, status: state, version: states.length + 1 };
}

function respond(response: ServerResponse, { status, body }: Answer, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}
