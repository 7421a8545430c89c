import { createHash } from 'node:crypto';
import { generateSync } from 'json-schema-faker';
import { signEvent } from '../../../src/payments/providers/simulated-signature.js';
import { below, type Random, seededRandom } from '../storm-plan.js';
import type { KnownValues } from './known-values.js';
import { oddBody, oddText, withOddMember } from './odd-values.js';
import type { InputBody, InputOperation, InputParameter, WholeSchema } from './operations.js';

/** A request as it is to be sent. */
export interface PlannedInput {
  operation: InputOperation;
  method: string;
  /** With its query, encoded. */
  path: string;
  /** Whose key goes along: the name of a role, `nobody` or `stranger`. */
  caller: string;
  headers: Record<string, string>;
  body: Buffer | undefined;
}

export interface InputWorld {
  seed: number;
  operations: readonly InputOperation[];
  known: KnownValues;
  /** Of the simulated provider's events. */
  webhookSecret: string;
}

/** `honest`: by the document, about what is there. `made`: by the document's schemas alone. `odd`: honest, but for a thing or two. */
const MANNERS = ['honest', 'honest', 'honest', 'made', 'odd', 'odd'] as const;
type Manner = (typeof MANNERS)[number];

/** All that is random about a request, from the seed, its number and what answers before it told. */
export function planInput(world: InputWorld, index: number): PlannedInput {
  const random = seededRandom(createHash('sha256').update(`${world.seed}/${index}`).digest().readUInt32BE());
  const operation = world.operations[index % world.operations.length];
  if (!operation) throw new Error('The document has no operations');
  const manner = MANNERS[below(random, MANNERS.length)] ?? 'honest';
  return new InputPlan(world, index, operation, random, manner).whole();
}

class InputPlan {
  private readonly headers: Record<string, string> = {};
  /** What the body says, as far as it is to be understood. */
  private value: unknown = {};

  constructor(
    private readonly world: InputWorld,
    private readonly index: number,
    private readonly operation: InputOperation,
    private readonly random: Random,
    private readonly manner: Manner,
  ) {}

  whole(): PlannedInput {
    const path = this.path();
    this.setHeaders(path);
    const body = this.body();
    const query = this.query(path);
    const planned: PlannedInput = {
      operation: this.operation,
      method: this.operation.method,
      path: path + query,
      caller: this.operation.isPublic ? 'nobody' : 'admin',
      headers: this.headers,
      body,
    };
    if (this.manner === 'odd') for (let times = 1 + below(this.random, 2); times > 0; times -= 1) this.makeOdd(planned);
    this.sign(planned);
    return planned;
  }

  private path(): string {
    return this.operation.path.replaceAll(/([a-z-]*)\/\{(\w+)\}/g, (_all, kind: string, name: string) => {
      const known = this.manner === 'made' && this.oneIn(3) ? undefined : this.world.known.id(kind, this.random);
      const parameter = this.operation.parameters.find((one) => one.place === 'path' && one.name === name);
      // A tile's path has slashes in it.
      const steps = known?.split('/') ?? [this.textOf(parameter)];
      return [kind, ...steps.map(encode)].join('/');
    });
  }

  private query(path: string): string {
    const given = this.operation.parameters.filter(
      ({ place, required }) => place === 'query' && (required || this.oneIn(3)),
    );
    const pairs = given.flatMap((parameter) => {
      const value = this.queryValue(parameter, path);
      return value === undefined ? [] : [`${encode(parameter.name)}=${encode(value)}`];
    });
    return pairs.length === 0 ? '' : `?${pairs.join('&')}`;
  }

  private queryValue(parameter: InputParameter, path: string): string | undefined {
    if (parameter.name === 'cursor') return this.world.known.cursor(path);
    if (parameter.name === 'stream') return `order/${this.world.known.id('orders', this.random)}`;
    // A request that waits for an event is only slow.
    if (parameter.name === 'wait') return '0';
    // The log is short.
    if (/^(?:after|index|from|to|size|version)$/.test(parameter.name) && this.manner !== 'made') {
      return String(1 + below(this.random, 20));
    }
    return this.textOf(parameter);
  }

  private setHeaders(path: string): void {
    for (const { name, place, required } of this.operation.parameters) {
      if (place !== 'header' || !(required || this.oneIn(2))) continue;
      if (name === 'Idempotency-Key') this.headers[name] = `input-${this.world.seed}-${this.keyNumber()}`;
      else if (name === 'If-Match') this.headers[name] = this.world.known.tag(path) ?? '"1"';
      else if (name === 'If-None-Match') this.headers[name] = this.world.known.tag(path) ?? '"1"';
    }
  }

  /** Its own, and now and then that of a request before. */
  private keyNumber(): number {
    return this.oneIn(12) ? Math.max(0, this.index - this.world.operations.length) : this.index;
  }

  private body(): Buffer | undefined {
    const chosen = this.operation.bodies[below(this.random, this.operation.bodies.length)];
    if (!chosen) return undefined;
    this.headers['content-type'] = chosen.mediaType;
    this.value = this.manner === 'made' ? this.made(chosen.schema) : this.honest(chosen);
    return Buffer.from(JSON.stringify(this.value));
  }

  /** One of the document's examples, with a member or two of another value that its schema allows. */
  private honest({ schema, examples }: InputBody): unknown {
    const example = examples[below(this.random, examples.length)];
    if (typeof example !== 'object' || example === null) return this.made(schema);
    const made = this.made(schema) as Record<string, unknown>;
    const names = Object.keys(made).filter((name) => name !== 'expectedTotal' && this.oneIn(5));
    const body = { ...(example as object), ...Object.fromEntries(names.map((name) => [name, made[name]])) };
    return this.pointingSomewhere(body);
  }

  private pointingSomewhere(body: Record<string, unknown>): Record<string, unknown> {
    const { expectedTotal: _expectedTotal, ...rest } = body;
    return {
      ...rest,
      ...('userId' in body ? { userId: this.world.known.id('users', this.random) ?? body.userId } : {}),
      ...('subject' in body ? { subject: `input-${this.index}` } : {}),
      ...('externalRef' in body ? { externalRef: `input-${this.index}` } : {}),
    };
  }

  private makeOdd(planned: PlannedInput): void {
    const parts = [
      () => (planned.path = this.withOddId(planned.path)),
      () => (planned.path = this.withOddQuery(planned.path)),
      () => (planned.path = this.withOddQuery(planned.path)),
      () => this.setOddHeader(planned),
      () => (planned.caller = ['viewer', 'operator', 'auditor', 'nobody', 'stranger'][below(this.random, 5)] ?? ''),
      () => (planned.method = planned.method === 'GET' ? 'HEAD' : planned.method),
      ...Array.from({ length: planned.body ? 6 : 0 }, () => () => this.setOddBody(planned)),
    ];
    parts[below(this.random, parts.length)]?.();
  }

  /** In the place of one of the path's parameters, or behind the path where it has none. */
  private withOddId(path: string): string {
    const [address = '', query] = path.split('?');
    const places = this.operation.path.split('/').flatMap((step, at) => (step.startsWith('{') ? [at] : []));
    const steps = address.split('/');
    steps[places[below(this.random, places.length)] ?? steps.length] = encode(oddText(this.random));
    return [steps.join('/'), ...(query === undefined ? [] : [query])].join('?');
  }

  private withOddQuery(path: string): string {
    const [address = '', query = ''] = path.split('?');
    const names = this.operation.parameters.filter(({ place }) => place === 'query').map(({ name }) => name);
    const name = this.oneIn(4) ? oddText(this.random) : (names[below(this.random, names.length)] ?? 'limit');
    // As a whole: percent signs that encode nothing, and names without a value.
    const odd = this.oneIn(8)
      ? oddText(this.random).replaceAll(/[^\x21-\x7e]/g, '')
      : `${encode(name)}=${encode(oddText(this.random))}`;
    return `${address}?${[...(query === '' || this.oneIn(2) ? [] : [query]), odd].join('&')}`;
  }

  private setOddHeader(planned: PlannedInput): void {
    const names = [
      'content-type',
      'accept',
      'content-encoding',
      'if-match',
      'if-none-match',
      'idempotency-key',
      'authorization',
      'x-request-id',
      'traceparent',
      'x-forwarded-for',
      'accept-encoding',
      'content-type',
      'accept',
      'idempotency-key',
    ];
    const name = names[below(this.random, names.length)] ?? 'accept';
    const same = Object.keys(planned.headers).find((other) => other.toLowerCase() === name) ?? name;
    if (this.oneIn(4)) delete planned.headers[same];
    // What no header can hold never leaves a client.
    else planned.headers[same] = oddText(this.random).replaceAll(/[^\t\x20-\x7e\x80-\xff]/g, '');
  }

  private setOddBody(planned: PlannedInput): void {
    if (this.oneIn(3)) {
      planned.body = oddBody(this.random, planned.body ?? Buffer.alloc(0));
      return;
    }
    this.value = withOddMember(this.random, this.value);
    planned.body = Buffer.from(JSON.stringify(this.value));
  }

  private sign({ operation, body, headers }: PlannedInput): void {
    if (operation.id !== 'receivePaymentEvent' || this.oneIn(5)) return;
    headers['simulated-signature'] = signEvent(this.world.webhookSecret, body ?? '');
  }

  private textOf(parameter: InputParameter | undefined): string {
    const value = this.made(parameter?.schema ?? { type: 'string' });
    return typeof value === 'string' ? value : JSON.stringify(value);
  }

  private made(schema: WholeSchema): unknown {
    return generateSync(schema, { seed: below(this.random, 2 ** 31), optionalsProbability: this.random() });
  }

  private oneIn(times: number): boolean {
    return below(this.random, times) === 0;
  }
}

/** Percent-encoded, in bytes: lone surrogates have none and become U+FFFD. */
function encode(text: string): string {
  return encodeURIComponent(Buffer.from(text).toString());
}
