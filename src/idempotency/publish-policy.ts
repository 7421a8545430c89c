import type { OpenAPIObject } from '@nestjs/swagger';
import { documentProblems, type ProblemDefinition } from '../problems/index.js';
import {
  answerErased,
  IDEMPOTENCY_PAGE,
  idempotencyKeyInFlight,
  idempotencyKeyInvalid,
  idempotencyKeyMissing,
  idempotencyKeyReused,
} from './idempotency.errors.js';
import { KEY_HEADER, requiresKey } from './idempotent-options.js';
import { describeTtl, type IdempotencyPolicy } from './policy.js';

const METHODS = ['post', 'put', 'patch', 'delete'] as const;

const REPLAY_HEADERS = {
  'Idempotency-Replayed': {
    description: '`true` when the answer was given before and is repeated.',
    schema: { type: 'string' as const, enum: ['true'] },
  },
  'Idempotency-Created-At': {
    description: 'On a repeated answer: when the first request with the key came.',
    schema: { type: 'string' as const, format: 'date-time' },
  },
};

/** Writes into the OpenAPI document, at every operation with `@Idempotent()`, what its key is and does. */
export function publishIdempotencyPolicy(document: OpenAPIObject, { ttlSeconds }: IdempotencyPolicy): void {
  for (const path of Object.values(document.paths)) {
    for (const method of METHODS) {
      const operation = path[method];
      const header = operation?.parameters?.find((parameter) => 'name' in parameter && parameter.name === KEY_HEADER);
      if (!operation || !header) continue;
      const required = requiresKey(method.toUpperCase());
      Object.assign(header, headerParameter(required, ttlSeconds));
      documentProblems(operation.responses, problemsOf(required));
      for (const [status, response] of Object.entries(operation.responses)) {
        if (/^2\d\d$/.test(status) && response && 'description' in response) {
          response.headers = { ...response.headers, ...REPLAY_HEADERS };
        }
      }
    }
  }
  Object.assign(document, { 'x-idempotency': { ttlSeconds, documentation: IDEMPOTENCY_PAGE } });
}

function problemsOf(required: boolean): ProblemDefinition[] {
  return [
    ...(required ? [idempotencyKeyMissing] : []),
    idempotencyKeyInvalid,
    idempotencyKeyInFlight,
    idempotencyKeyReused,
    answerErased,
  ];
}

function headerParameter(required: boolean, ttlSeconds: number | null): object {
  return {
    required,
    description:
      `One key for each action; send the same one with every retry. The first answer is kept ${keptFor(ttlSeconds)} ` +
      `(a tenant may have another time) and given again, byte for byte. See [how keys work](${IDEMPOTENCY_PAGE}).`,
    schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[\\x21-\\x2b\\x2d-\\x7e]+$' },
    example: '8e03978e-40d5-43dd-bc93-6894a57f9324',
  };
}

function keptFor(ttlSeconds: number | null): string {
  return ttlSeconds === null ? 'for ever' : `for ${describeTtl(ttlSeconds)}`;
}
