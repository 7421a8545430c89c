import type { OpenAPIObject } from '@nestjs/swagger';
import {
  documentProblems,
  headersTooLarge,
  internalError,
  invalidCursor,
  invalidParameter,
  malformedBody,
  notAcceptable,
  notFound,
  payloadTooLarge,
  type ProblemDefinition,
  rateLimited,
  requestTimeout,
  roleRequired,
  unauthenticated,
  unavailable,
  unknownParameter,
  unsupportedMediaType,
  validationFailed,
} from '../problems/index.js';
import { type FoundOperation, isReference, operationsOf } from './document-types.js';

/** What any operation can answer. */
const EVERYWHERE: readonly ProblemDefinition[] = [
  invalidParameter,
  unknownParameter,
  notAcceptable,
  requestTimeout,
  rateLimited,
  headersTooLarge,
  internalError,
  unavailable,
];

/**
 * Documents what operations answer because of what they are, and not of what they do: by their method, their parameters, their
 * body, and whether they need credentials. Decorators name the rest.
 */
export function addGeneralAnswers(document: OpenAPIObject): void {
  for (const found of operationsOf(document)) documentProblems(found.operation.responses, problemsOf(found));
}

function problemsOf({ method, path, operation }: FoundOperation): ProblemDefinition[] {
  const names = (operation.parameters ?? []).map((parameter) => (isReference(parameter) ? '' : parameter.name));
  return [
    ...EVERYWHERE,
    // A public operation knows nobody, so it turns nobody away.
    ...(operation.security ? [unauthenticated, roleRequired] : []),
    // Whatever is sent along is read and has to be JSON, also where it means nothing.
    ...(method === 'get' ? [] : [malformedBody, payloadTooLarge, unsupportedMediaType]),
    // A body that a provider signed is in the provider's words.
    ...(operation.requestBody && operation.security ? [validationFailed] : []),
    ...(path.includes('{') ? [notFound] : []),
    ...(names.includes('cursor') ? [invalidCursor] : []),
  ];
}
