import { randomUUID } from 'node:crypto';
import type { OpenAPIObject } from '@nestjs/swagger';
import { DocumentCheck, type Exchange } from './document-check.js';

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

/**
 * A thin client for tests: sends what it is told, and a fresh Idempotency-Key with every POST that brings none. It holds
 * every answer against the service's own OpenAPI document, and throws UndocumentedAnswer where they differ.
 */
export class ApiClient {
  /** @param onExchange is told of everything that went over the wire */
  constructor(
    readonly baseUrl: string,
    readonly apiKey?: string,
    private readonly onExchange?: (exchange: Exchange) => void,
  ) {}

  /** The same client without the document, for data that a test made by SQL and that no client could have made. */
  undocumented(): ApiClient {
    const client = new ApiClient(this.baseUrl, this.apiKey, this.onExchange);
    client.isHeldToDocument = false;
    return client;
  }

  private isHeldToDocument = true;

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
    const exchange: Exchange = {
      method,
      path,
      requestBody: isRaw ? parsed(body) : body,
      status: response.status,
      headers: response.headers,
      text,
    };
    // A preflight belongs to CORS, not to the API.
    if (this.isHeldToDocument && method !== 'OPTIONS') (await documentOf(this.baseUrl)).check(exchange);
    this.onExchange?.(exchange);
    const isJson = /[/+]json/.test(response.headers.get('content-type') ?? '');
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: (isJson && text ? JSON.parse(text) : undefined) as Body,
    };
  }
}

const documents = new Map<string, Promise<DocumentCheck>>();
/** By the document's text: services of one file mostly have the same, and its checks are dear to make. */
const checks = new Map<string, DocumentCheck>();

/** The document that the service itself serves: with its extensions, and never out of date. */
function documentOf(baseUrl: string): Promise<DocumentCheck> {
  const known = documents.get(baseUrl) ?? readDocument(baseUrl);
  documents.set(baseUrl, known);
  return known;
}

/** For a service whose rate limits would count the request for its document. */
export function knowDocument(baseUrl: string, document: OpenAPIObject): void {
  documents.set(baseUrl, Promise.resolve(checkOf(JSON.stringify(document))));
}

async function readDocument(baseUrl: string): Promise<DocumentCheck> {
  const response = await fetch(`${baseUrl}/openapi.json`);
  return checkOf(await response.text());
}

function checkOf(text: string): DocumentCheck {
  const check = checks.get(text) ?? new DocumentCheck(JSON.parse(text) as OpenAPIObject);
  checks.set(text, check);
  return check;
}

/** What a raw body says, as far as it is JSON; tests send other things on purpose. */
function parsed(raw: string | Uint8Array): unknown {
  try {
    return JSON.parse(typeof raw === 'string' ? raw : new TextDecoder().decode(raw));
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
