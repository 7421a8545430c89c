import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { DomainError, payloadTooLarge, requestTimeout } from '../problems/index.js';
import { BodyMemory, type HeldBody } from './body-memory.js';
import { signedBodyOf } from './signed-body.js';

/** Largest body of a caller who is known. */
export const BODY_LIMIT_BYTES = 1_048_576;
/** Of the memory for bodies, the part that those may take whose senders nobody knows yet. */
const SHARE_OF_STRANGERS = 1 / 4;

interface BodyRule {
  limitBytes: number;
  /** Null leaves it to the server's own time for a whole request. */
  patienceMs: number | null;
  memory: BodyMemory;
}

/** Reads the bodies of requests within their limits: each one's, and that of all together. */
export class BodyReader {
  private readonly known: BodyMemory;
  private readonly strangers: BodyMemory;

  /** @param memoryBytes what all bodies together may take */
  constructor(memoryBytes: number) {
    this.strangers = new BodyMemory(memoryBytes * SHARE_OF_STRANGERS);
    this.known = new BodyMemory(memoryBytes * (1 - SHARE_OF_STRANGERS));
  }

  /** Bytes that bodies take now. */
  get used(): number {
    return this.known.used + this.strangers.used;
  }

  /** @throws DomainError `payload-too-large` for a body that says itself that it is, and that would be read */
  refuseTooLarge(request: FastifyRequest): void {
    if (request.method === 'GET' || request.method === 'HEAD') return;
    if (Number(request.headers['content-length'] ?? 0) > this.ruleFor(request).limitBytes) throw tooLarge();
  }

  /**
   * The whole body. The memory that it takes counts until `reply` is closed.
   *
   * @throws DomainError `payload-too-large`, `request-timeout`, or `unavailable` when there is no room for it
   */
  read(request: FastifyRequest, reply: FastifyReply): Promise<Buffer> {
    this.refuseTooLarge(request);
    const { limitBytes, patienceMs, memory } = this.ruleFor(request);
    const { raw } = request;
    return new Promise((resolve, reject) => {
      const held = memory.hold((error) => end(error));
      reply.raw.once('close', () => held.release());
      const bytes = new GrowingBytes(held);
      const timer = patienceMs === null ? undefined : setTimeout(() => end(tooSlow()), patienceMs);
      const take = (chunk: Buffer): void => {
        if (bytes.length + chunk.length > limitBytes) end(tooLarge());
        else bytes.append(chunk);
      };
      const finish = (): void => end(null);
      const breakOff = (error: Error): void => end(Object.assign(error, { statusCode: 400 }));
      const end = (error: Error | null): void => {
        clearTimeout(timer);
        raw.off('data', take).off('end', finish).off('error', breakOff);
        if (error) {
          held.release();
          reject(error);
          return;
        }
        held.settle();
        resolve(bytes.whole());
      };
      raw.on('data', take).on('end', finish).on('error', breakOff);
      if (waiting.delete(raw)) reply.raw.writeContinue();
    });
  }

  private ruleFor(request: FastifyRequest): BodyRule {
    const signed = signedBodyOf(request);
    return signed
      ? { ...signed, memory: this.strangers }
      : { limitBytes: BODY_LIMIT_BYTES, patienceMs: null, memory: this.known };
  }
}

/** Requests whose clients wait for a word before they send the body (`Expect: 100-continue`). */
const waiting = new WeakSet<IncomingMessage>();

export function waitsForWord(raw: IncomingMessage): boolean {
  return waiting.has(raw);
}

/** Has clients that ask before they send a body wait until it is wanted; Node would tell all of them to go on. */
export function askBeforeBodies(server: Pick<Server, 'on' | 'emit'>): void {
  server.on('checkContinue', (raw: IncomingMessage, response: ServerResponse) => {
    waiting.add(raw);
    server.emit('request', raw, response);
  });
}

function tooLarge(): DomainError {
  return new DomainError(payloadTooLarge, 'The body is larger than this service reads.');
}

function tooSlow(): DomainError {
  return new DomainError(requestTimeout, 'The body did not arrive completely in time.');
}

/** One buffer that grows, and no list of chunks: a chunk of a byte would cost a hundred. */
class GrowingBytes {
  private bytes = Buffer.alloc(0);
  length = 0;

  constructor(private readonly held: HeldBody) {}

  append(chunk: Buffer): void {
    const needed = this.length + chunk.length;
    if (needed > this.bytes.length) {
      const grown = Buffer.allocUnsafe(this.length === 0 ? needed : Math.max(needed, this.length * 2));
      this.bytes.copy(grown, 0, 0, this.length);
      this.held.grow(grown.length - this.bytes.length);
      this.bytes = grown;
    }
    chunk.copy(this.bytes, this.length);
    this.length = needed;
  }

  whole(): Buffer {
    return this.bytes.subarray(0, this.length);
  }
}
