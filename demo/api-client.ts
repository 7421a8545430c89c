import { setTimeout as sleep } from 'node:timers/promises';

/** An answer of the service, whatever its status. */
export interface ApiAnswer {
  status: number;
  body: Record<string, unknown>;
  /** The answer was kept under the idempotency key, and given again. */
  replayed: boolean;
}

/** What a request carries besides method and path. */
export interface ApiRequest {
  body?: unknown;
  idempotencyKey?: string;
}

/** The service could not be reached, or stayed unavailable through all retries: nothing more can be done now. */
export class ServiceUnreachable extends Error {}

/** The key is wrong: every other request would fail likewise. */
export class KeyRefused extends Error {}

/** The run was stopped while a request waited for its next try. */
export class Stopped extends Error {}

export interface ApiClientOptions {
  baseUrl: string;
  apiKey: string;
  /** Aborted: running requests and waits end at once. */
  signal?: AbortSignal;
  /** Aborted: waits between tries end with `Stopped`, running requests are let through. */
  stop?: AbortSignal;
  /** The first wait between tries in milliseconds; it doubles with each try. */
  backOffMs?: number;
  maxTries?: number;
  /** Told of every wait, to show it. */
  onRetry?: (why: string, waitMs: number) => void;
}

const REQUEST_TIMEOUT_MS = 30_000;
const LONGEST_WAIT_MS = 60_000;

/**
 * A small client of the HTTP API that tries again where the service asks for it: after a broken connection, 429, 503 and
 * a key that is in flight. It waits as long as `Retry-After` says, and otherwise twice as long each time, with some
 * randomness, so that its own requests don't come back all at once. Every request is safe to repeat because writes carry
 * a key.
 */
export class ApiClient {
  private readonly signal: AbortSignal;
  private readonly backOffMs: number;
  private readonly maxTries: number;

  constructor(private readonly options: ApiClientOptions) {
    this.signal = options.signal ?? new AbortController().signal;
    this.backOffMs = options.backOffMs ?? 250;
    this.maxTries = options.maxTries ?? 8;
  }

  get(path: string): Promise<ApiAnswer> {
    return this.send('GET', path, {});
  }

  post(path: string, body: unknown, idempotencyKey: string): Promise<ApiAnswer> {
    return this.send('POST', path, { body, idempotencyKey });
  }

  private async send(method: string, path: string, request: ApiRequest): Promise<ApiAnswer> {
    for (let tries = 1; ; tries += 1) {
      const result = await this.attempt(method, path, request);
      if ('answer' in result) return result.answer;
      if (tries >= this.maxTries) {
        throw new ServiceUnreachable(`${method} ${path} failed ${tries} times: ${result.why}`);
      }
      const waitMs = Math.min(result.waitMs ?? this.backOff(tries), LONGEST_WAIT_MS);
      this.options.onRetry?.(result.why, waitMs);
      await this.wait(waitMs);
    }
  }

  private async wait(waitMs: number): Promise<void> {
    const { stop } = this.options;
    try {
      await sleep(waitMs, undefined, { signal: AbortSignal.any([this.signal, ...(stop ? [stop] : [])]) });
    } catch (error) {
      this.signal.throwIfAborted();
      throw stop?.aborted === true ? new Stopped('stopped while waiting for the next try') : error;
    }
  }

  private async attempt(
    method: string,
    path: string,
    request: ApiRequest,
  ): Promise<{ answer: ApiAnswer } | { why: string; waitMs: number | undefined }> {
    let response: Response;
    let text: string;
    try {
      response = await fetch(this.options.baseUrl + path, {
        method,
        headers: this.headers(request),
        signal: AbortSignal.any([this.signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]),
        ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
      });
      text = await response.text();
    } catch (error) {
      this.signal.throwIfAborted();
      return { why: `no connection to ${this.options.baseUrl} (${causeOf(error)})`, waitMs: undefined };
    }
    const body = parseBody(text);
    if (response.status === 401) throw new KeyRefused(`${this.options.baseUrl} refuses the API key: ${detailOf(body)}`);
    const replayed = response.headers.get('idempotency-replayed') === 'true';
    const answer = { status: response.status, body, replayed };
    if (!asksForRetry(answer)) return { answer };
    const waitMs = retryAfterMs(response.headers.get('retry-after'), Date.now());
    return { why: `${response.status} ${detailOf(body)}`, waitMs };
  }

  private headers(request: ApiRequest): Record<string, string> {
    return {
      accept: 'application/json',
      authorization: `Bearer ${this.options.apiKey}`,
      ...(request.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(request.idempotencyKey === undefined ? {} : { 'idempotency-key': request.idempotencyKey }),
    };
  }

  private backOff(tries: number): number {
    return this.backOffMs * 2 ** (tries - 1) * (0.5 + Math.random());
  }
}

/** A problem's code and detail as one text, for people. */
export function detailOf(body: Record<string, unknown>): string {
  const { code, detail, title, errors } = body;
  const words = [detail ?? title].filter((word) => typeof word === 'string').join('');
  const faults = Array.isArray(errors) ? ` ${JSON.stringify(errors.slice(0, 3))}` : '';
  return `${typeof code === 'string' ? code : 'without a code'}${words === '' ? '' : `: ${words}`}${faults}`;
}

/** `Retry-After` in milliseconds: seconds, or a date. */
export function retryAfterMs(header: string | null, now: number): number | undefined {
  if (header === null) return undefined;
  if (/^\d+$/.test(header)) return Number(header) * 1000;
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

function asksForRetry({ status, body }: ApiAnswer): boolean {
  if (status === 409) return body['code'] === 'idempotency-key-in-flight';
  return status === 408 || status === 429 || status === 502 || status === 503 || status === 504;
}

function parseBody(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    return { detail: text.slice(0, 200) };
  }
}

function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause;
  if (cause instanceof Error) return ('code' in cause && String(cause.code)) || cause.message;
  return error.message;
}
