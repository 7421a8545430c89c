import type { OpenAPIObject } from '@nestjs/swagger';
import { problemsOf } from '../problems/index.js';
import { isReference, operationsOf, type Response } from './document-types.js';

type Header = Exclude<NonNullable<NonNullable<OpenAPIObject['components']>['headers']>[string], { $ref: string }>;

/** Headers that answers have in common, by the name that they are sent under. */
const SHARED: Record<string, Header> = {
  'X-Request-Id': {
    description: "The request's own X-Request-Id when it was 1 to 128 visible ASCII characters, a new id otherwise.",
    required: true,
    schema: { type: 'string', example: '5f0c9a52-3a0e-4a39-a5b1-6c2f0f6c2a77' },
  },
  'Retry-After': {
    description: 'Whole seconds to wait before the same request is sent again.',
    schema: { type: 'integer', minimum: 0, example: 2 },
  },
  ETag: {
    description: 'The version of the record as a strong entity tag; send it back as If-Match.',
    required: true,
    schema: { type: 'string', pattern: '^"[1-9][0-9]*"$', example: '"1"' },
  },
  Location: {
    description: 'Address of the record.',
    required: true,
    schema: { type: 'string', format: 'uri-reference', example: '/v1/orders/01935c1e-7b3a-7c1d-9f00-000000000001' },
  },
  'Cache-Control': {
    description: '`no-store`, mostly: what somebody may see is for no cache.',
    required: true,
    schema: { type: 'string', example: 'no-store' },
  },
  Link: {
    description: 'RFC 8288: addresses of the next and the previous page, as far as there are any.',
    schema: { type: 'string', example: '</v1/orders?limit=50&cursor=eyJ2IjoxfQ>; rel="next"' },
  },
};

/**
 * Puts the shared headers into `components` and refers to them: those that every answer has, and those that a route's
 * decorators name without more than a description.
 */
export function shareHeaders(document: OpenAPIObject): void {
  for (const { operation } of operationsOf(document)) {
    for (const [status, response] of Object.entries(operation.responses)) {
      const isForCaller = operation.security !== undefined && Number(status) < 300;
      if (response && !isReference(response)) addHeaders(response, isForCaller);
    }
  }
  document.components = { ...document.components, headers: { ...document.components?.headers, ...SHARED } };
}

function addHeaders(response: Response, isForCaller: boolean): void {
  const named = Object.keys(response.headers ?? {});
  const names = [
    ...named,
    'X-Request-Id',
    ...(isForCaller ? ['Cache-Control'] : []),
    ...(saysWhenToRetry(response) ? ['Retry-After'] : []),
  ];
  const own = response.headers ?? {};
  response.headers = Object.fromEntries(
    names.map((name) => [name, name in SHARED ? { $ref: `#/components/headers/${name}` } : own[name]]),
  ) as Response['headers'];
}

function saysWhenToRetry(response: Response): boolean {
  return problemsOf(response).some(({ retryAfterSeconds }) => retryAfterSeconds !== undefined);
}
