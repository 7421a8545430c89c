import type { OpenAPIObject } from '@nestjs/swagger';
import { problemDefinitions, problemSchema, problemSchemaName, problemsOf } from '../problems/index.js';
import { isReference, type MediaTypes, type Operation, operationsOf, type Response } from './document-types.js';
import { addGeneralAnswers } from './general-answers.js';
import { shareHeaders } from './headers.js';
import { sayLargeIntegers } from './number-formats.js';
import type { OperationExamples, RecordedExamples } from './recorded-examples.js';
import { separateRequestSchemas } from './request-schemas.js';

/**
 * Makes Nest's document whole: what decorators can't say once, or would have to repeat on every route. Schemas lose the
 * suffix `Dto`, which is for readers of the code; problems get a schema for each code; every answer gets its shared
 * headers; examples come from a recording of the running service; what occurs often moves to `components`.
 */
export function completeDocument(source: OpenAPIObject, recorded: RecordedExamples): OpenAPIObject {
  const document = JSON.parse(withoutDtoSuffix(JSON.stringify(source))) as OpenAPIObject;
  addProblemSchemas(document);
  separateRequestSchemas(document);
  addGeneralAnswers(document);
  for (const { path, operation } of operationsOf(document)) {
    addDescriptions(path, operation);
    addExamples(operation, recorded[operation.operationId ?? ''] ?? {});
  }
  shareHeaders(document);
  shareResponses(document);
  dropUnusedSchemas(document);
  sayLargeIntegers(document);
  return document;
}

function withoutDtoSuffix(json: string): string {
  return json
    .replaceAll(/"#\/components\/schemas\/(\w+)Dto"/g, '"#/components/schemas/$1"')
    .replaceAll(/"(\w+)Dto":\{/g, '"$1":{');
}

function addProblemSchemas(document: OpenAPIObject): void {
  const problems = problemDefinitions().map((problem) => [problemSchemaName(problem), problemSchema(problem)]);
  document.components = {
    ...document.components,
    schemas: { ...document.components?.schemas, ...Object.fromEntries(problems) },
  };
}

/** What goes without saying is said once: `id` in `/v1/orders/{id}` is the id of the order. */
function addDescriptions(path: string, { parameters = [], responses, summary }: Operation): void {
  for (const parameter of parameters) {
    if (isReference(parameter) || parameter.in !== 'path' || parameter.description) continue;
    const [, owner = 'record'] = new RegExp(`/([^/]+)/\\{${parameter.name}\\}`).exec(path) ?? [];
    const { name } = parameter;
    parameter.description = `${name.charAt(0).toUpperCase()}${name.slice(1)} of the ${owner.replace(/s$/, '')}.`;
  }
  for (const response of Object.values(responses)) {
    if (response && !isReference(response)) response.description ||= summary ?? '';
  }
}

function addExamples(operation: Operation, { request, responses = {} }: OperationExamples): void {
  const body = operation.requestBody;
  if (request && body && !isReference(body)) setExamples(body.content, request);
  for (const [status, examples] of Object.entries(responses)) {
    const response = operation.responses[status];
    if (response && !isReference(response) && response.content) setExamples(response.content, examples);
  }
}

function setExamples(content: MediaTypes, examples: MediaTypes[string]['examples']): void {
  for (const mediaType of Object.values(content)) mediaType.examples = { ...mediaType.examples, ...examples };
}

/** Moves what two answers or more have in common to `components`, under the names of its problems. */
function shareResponses(document: OpenAPIObject): void {
  const places = new Map<string, { operation: Operation; status: string; response: Response }[]>();
  for (const { operation } of operationsOf(document)) {
    for (const [status, response] of Object.entries(operation.responses)) {
      if (!response || isReference(response) || Number(status) < 400) continue;
      const content = JSON.stringify(response);
      places.set(content, [...(places.get(content) ?? []), { operation, status, response }]);
    }
  }
  const shared: Record<string, Response> = {};
  for (const same of places.values()) {
    const [first] = same;
    if (!first || same.length < 2) continue;
    const name = nameOfResponse(first.response);
    shared[name] = first.response;
    for (const { operation, status } of same) {
      operation.responses[status] = { $ref: `#/components/responses/${name}` };
    }
  }
  document.components = { ...document.components, responses: shared };
}

function nameOfResponse(response: Response): string {
  return problemsOf(response)
    .map((problem) => problemSchemaName(problem).replace(/Problem$/, ''))
    .join('Or');
}

/** Removing one may leave another unused. */
function dropUnusedSchemas(document: OpenAPIObject): void {
  const schemas = document.components?.schemas ?? {};
  for (;;) {
    const text = JSON.stringify(document);
    const unused = Object.keys(schemas).filter((name) => !text.includes(`"#/components/schemas/${name}"`));
    if (unused.length === 0) return;
    for (const name of unused) delete schemas[name];
  }
}
