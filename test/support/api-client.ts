import { randomUUID } from 'node:crypto';

/** An answer with its body read. */
export interface Answer<Body = unknown> {
  status: number;
  headers: Headers;
  /** The bytes as text. */
  text: string;
  /** Parsed, when it is JSON. */
  body: Body;
}

export interface RequestOptions {
  headers?: Record<string, string>;
  /** An object is sent as JSON; text and bytes as they are. */
  body?: unknown;
  signal?: AbortSignal;
}

/** A thin client for tests: sends what it is told, and a fresh Idempotency-Key with every POST that brings none. */
export class ApiClient {
  constructor(
    readonly baseUrl: string,
    readonly apiKey?: string,
  ) {}

  get<Body>(path: string, headers: Record<string, string> = {}): Promise<Answer<Body>> {
    return this.send<Body>('GET', path, { headers });
  }

  post<Body>(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer<Body>> {
    return this.send<Body>('POST', path, { body, headers: { 'idempotency-key': randomUUID(), ...headers } });
  }

  patch<Body>(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer<Body>> {
    return this.send<Body>('PATCH', path, {
      body,
      headers: { 'content-type': 'application/merge-patch+json', ...headers },
    });
  }

  async send<Body>(
    method: string,
    path: string,
    { headers = {}, body, signal }: RequestOptions = {},
  ): Promise<Answer<Body>> {
    const isRaw = typeof body === 'string' || body instanceof Uint8Array;
    const response = await fetch(this.baseUrl + path, {
      method,
      signal,
      headers: {
        ...(this.apiKey ? { authorization: `Bearer ${this.apiKey}` } : {}),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? undefined : isRaw ? (body as string) : JSON.stringify(body),
    });
    const text = await response.text();
    const isJson = /[/+]json/.test(response.headers.get('content-type') ?? '');
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: (isJson && text ? JSON.parse(text) : undefined) as Body,
    };
  }
}
