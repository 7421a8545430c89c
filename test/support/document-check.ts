import type { OpenAPIObject } from '@nestjs/swagger';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import {
  type FoundOperation,
  isReference,
  operationsOf,
  type Response,
} from '../../src/api-document/document-types.js';

/** One request with its answer, as it went over the wire. */
export interface Exchange {
  method: string;
  /** With its query. */
  path: string;
  /** Parsed; undefined when none was sent, or none that is JSON. */
  requestBody?: unknown;
  status: number;
  headers: Headers;
  /** The answer's bytes as text. */
  text: string;
}

/** The service did something that its OpenAPI document doesn't say. */
export class UndocumentedAnswer extends Error {
  override readonly name = 'UndocumentedAnswer';
}

/** For people or for tools, not operations of the API. */
const OUTSIDE = /^\/(?:openapi\.json|docs|problems|metrics)(?:[/?]|$)/;
/** What is answered before it is known which operation is asked for: any path may get it. */
const BEFORE_ROUTING = new Set([400, 404, 405, 408, 413, 414, 415, 429, 431, 503]);
const PROBLEM_MEDIA_TYPE = 'application/problem+json';
const PROBLEM_MEMBERS = ['type', 'title', 'status', 'detail', 'code', 'requestId'];

/**
 * Holds answers against an OpenAPI document. Stricter than the document's own schemas: an object with members that the
 * document doesn't name is refused, so that nothing can be sent and not be documented.
 */
export class DocumentCheck {
  private readonly ajv = new Ajv2020({ strict: false, allErrors: true });
  private readonly operations: (FoundOperation & { pattern: RegExp })[];
  private readonly validators = new Map<string, ValidateFunction>();

  constructor(private readonly document: OpenAPIObject) {
    addFormats.default(this.ajv);
    this.ajv.addSchema(closeObjects(document) as object, 'api');
    this.operations = operationsOf(document).map((found) => ({ ...found, pattern: patternOf(found.path) }));
  }

  /** @throws UndocumentedAnswer that says what the document doesn't know */
  check(exchange: Exchange): void {
    const { method, status } = exchange;
    const path = exchange.path.split('?')[0] ?? '';
    if (OUTSIDE.test(path)) return;
    const operation = this.find(method, path);
    // A route that a test made for itself. The product's own all have a summary; another test sees to it.
    if (operation && !operation.operation.summary) return;
    const found = operation?.operation.responses[String(status)];
    if (!operation || !found) {
      if (BEFORE_ROUTING.has(status) && !operation) return this.checkAnyProblem(exchange);
      throw this.fault(exchange, operation ? `${status} is not among its answers` : 'there is no such operation');
    }
    const { response, pointer } = this.resolve(found, operation, String(status));
    this.checkHeaders(exchange, response);
    this.checkBody(exchange, response, pointer);
    if (status < 300 && exchange.requestBody !== undefined) this.checkRequest(exchange, operation);
  }

  /** Whether a value is what a schema of the document says. @param pointer such as `#/components/schemas/Order` */
  faultsOf(value: unknown, pointer: string): string[] {
    const validate = this.validators.get(pointer) ?? this.ajv.compile({ $ref: `api${pointer}` });
    this.validators.set(pointer, validate);
    if (validate(value)) return [];
    return (validate.errors ?? []).map(
      ({ instancePath, message, params }) => `${instancePath || '/'} ${message} ${JSON.stringify(params)}`,
    );
  }

  private find(method: string, path: string): FoundOperation | undefined {
    // Fastify refuses it before it looks for a route.
    if (!isDecodable(path)) return undefined;
    const wanted = method === 'HEAD' ? 'get' : method.toLowerCase();
    return this.operations.find((one) => one.method === wanted && one.pattern.test(path));
  }

  private resolve(
    found: object,
    { path, method }: FoundOperation,
    status: string,
  ): { response: Response; pointer: string } {
    if (!isReference(found)) {
      return { response: found as Response, pointer: pointerTo('paths', path, method, 'responses', status) };
    }
    const name = found.$ref.split('/').at(-1) ?? '';
    return { response: this.document.components?.responses?.[name] as Response, pointer: found.$ref };
  }

  private checkHeaders(exchange: Exchange, { headers = {} }: Response): void {
    for (const [name, header] of Object.entries(headers)) {
      const shared = this.document.components?.headers?.[name];
      const { required } = (isReference(header) ? shared : header) as { required?: boolean };
      const isDocument = exchange.status !== 304;
      if (required && isDocument && !exchange.headers.has(name))
        throw this.fault(exchange, `it lacks the header ${name}`);
    }
  }

  private checkBody(exchange: Exchange, { content }: Response, pointer: string): void {
    if (exchange.method === 'HEAD') return;
    const mediaType = mediaTypeOf(exchange.headers);
    if (!content) {
      if (exchange.text !== '') throw this.fault(exchange, 'it has a body, and should have none');
      return;
    }
    if (!(mediaType in content)) throw this.fault(exchange, `its media type is ${mediaType || 'missing'}`);
    // NDJSON is no one value.
    if (!/[/+]json$/.test(mediaType)) return;
    const faults = this.faultsOf(
      JSON.parse(exchange.text),
      `${pointer}${pointerTo('content', mediaType, 'schema').slice(1)}`,
    );
    if (faults.length > 0) throw this.fault(exchange, faults.join('\n  '));
  }

  /** What the service takes must be what the document lets clients send. */
  private checkRequest(exchange: Exchange, { path, method, operation }: FoundOperation): void {
    const body = operation.requestBody;
    if (!body || isReference(body)) throw this.fault(exchange, 'it took a body, and none is documented');
    const [mediaType = ''] = Object.keys(body.content);
    const pointer = pointerTo('paths', path, method, 'requestBody', 'content', mediaType, 'schema');
    const faults = this.faultsOf(exchange.requestBody, pointer);
    if (faults.length > 0)
      throw this.fault(exchange, `it took a body that is not as documented:\n  ${faults.join('\n  ')}`);
  }

  private checkAnyProblem(exchange: Exchange): void {
    if (exchange.method === 'HEAD') return;
    if (mediaTypeOf(exchange.headers) !== PROBLEM_MEDIA_TYPE) throw this.fault(exchange, 'it is no problem document');
    const body = JSON.parse(exchange.text) as Record<string, unknown>;
    const missing = PROBLEM_MEMBERS.filter((member) => body[member] === undefined);
    if (missing.length > 0) throw this.fault(exchange, `the problem lacks ${missing.join(', ')}`);
  }

  private fault({ method, path, status, text }: Exchange, what: string): UndocumentedAnswer {
    return new UndocumentedAnswer(
      `${method} ${path} answered ${status}, but by the OpenAPI document\n  ${what}\nThe answer: ${text.slice(0, 600)}`,
    );
  }
}

function mediaTypeOf(headers: Headers): string {
  return (headers.get('content-type') ?? '').split(';')[0]?.trim() ?? '';
}

function isDecodable(path: string): boolean {
  try {
    decodeURIComponent(path);
    return true;
  } catch (error) {
    if (error instanceof URIError) return false;
    throw error;
  }
}

function patternOf(path: string): RegExp {
  // A parameter called `path` has slashes in it.
  return new RegExp(`^${path.replaceAll('{path}', '.+').replaceAll(/\{\w+\}/g, '[^/]+')}$`);
}

function pointerTo(...steps: string[]): string {
  return `#/${steps.map((step) => encodeURIComponent(step.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`;
}

/** A copy in which every object schema that lists members allows no others. */
function closeObjects(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closeObjects);
  if (typeof value !== 'object' || value === null) return value;
  const copy = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, closeObjects(member)]));
  const isObjectSchema = copy.type === 'object' && typeof copy.properties === 'object';
  return isObjectSchema && copy.additionalProperties === undefined ? { ...copy, additionalProperties: false } : copy;
}
