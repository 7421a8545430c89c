import type { OpenAPIObject } from '@nestjs/swagger';
import { isReference, operationsOf } from '../../../src/api-document/document-types.js';

/** A JSON schema that can be understood by itself: it brings the document's components along. */
export type WholeSchema = Record<string, unknown>;

export interface InputParameter {
  name: string;
  place: 'path' | 'query' | 'header';
  required: boolean;
  schema: WholeSchema;
}

export interface InputBody {
  mediaType: string;
  schema: WholeSchema;
  /** Bodies that the document shows. */
  examples: readonly unknown[];
}

/** One operation of the API, with what it takes by its document. */
export interface InputOperation {
  id: string;
  method: string;
  /** With parameters in braces. */
  path: string;
  isPublic: boolean;
  parameters: readonly InputParameter[];
  bodies: readonly InputBody[];
}

/** Every operation of a document. */
export function inputOperations(document: OpenAPIObject): InputOperation[] {
  const whole = (schema: unknown): WholeSchema => ({ ...(schema as WholeSchema), components: document.components });
  return operationsOf(document).map(({ path, method, operation }) => ({
    id: operation.operationId ?? '',
    method: method.toUpperCase(),
    path,
    isPublic: operation.security === undefined,
    parameters: (operation.parameters ?? []).flatMap((parameter) =>
      isReference(parameter) || parameter.in === 'cookie'
        ? []
        : [
            {
              name: parameter.name,
              place: parameter.in as InputParameter['place'],
              required: parameter.required ?? false,
              schema: whole(parameter.schema),
            },
          ],
    ),
    bodies:
      operation.requestBody && !isReference(operation.requestBody)
        ? Object.entries(operation.requestBody.content).map(([mediaType, { schema, examples = {} }]) => ({
            mediaType,
            schema: whole(schema),
            examples: Object.values(examples).map((example) => (isReference(example) ? undefined : example.value)),
          }))
        : [],
  }));
}
