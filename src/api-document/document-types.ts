import type { OpenAPIObject } from '@nestjs/swagger';

type PathItem = OpenAPIObject['paths'][string];
export type Operation = NonNullable<PathItem['get']>;
export type Parameter = Exclude<NonNullable<Operation['parameters']>[number], { $ref: string }>;
export type Response = Exclude<NonNullable<Operation['responses']['200']>, { $ref: string }>;
export type Reference = { $ref: string };
export type MediaTypes = NonNullable<Response['content']>;

export const METHODS = ['get', 'put', 'post', 'delete', 'patch'] as const;
export type Method = (typeof METHODS)[number];

export interface FoundOperation {
  path: string;
  method: Method;
  operation: Operation;
}

/** Every operation of a document, in its order. */
export function operationsOf(document: OpenAPIObject): FoundOperation[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item[method];
      return operation ? [{ path, method, operation }] : [];
    }),
  );
}

export function isReference(value: object): value is Reference {
  return '$ref' in value;
}
