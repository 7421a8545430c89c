import type { TestApp } from './app.js';

/** One operation of the OpenAPI document. */
export interface Operation {
  operationId: string;
  method: string;
  /** With parameters in braces. */
  path: string;
  isPublic: boolean;
  takesBody: boolean;
}

interface Document {
  paths: Record<string, Record<string, { operationId: string; security?: unknown[]; requestBody?: unknown }>>;
}

/** Every operation of a service, in the order of its paths. */
export async function operationsOf(service: TestApp): Promise<Operation[]> {
  const { body } = await service.as('viewer').get<Document>('/openapi.json');
  const operations = Object.entries(body.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId, security, requestBody }]) => ({
      operationId,
      method: method.toUpperCase(),
      path,
      isPublic: security === undefined,
      takesBody: requestBody !== undefined,
    })),
  );
  return operations.toSorted((a, b) => a.path.localeCompare(b.path) || a.method.localeCompare(b.method));
}
