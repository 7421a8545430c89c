import type { OpenAPIObject } from '@nestjs/swagger';

const LARGEST_INT32 = 2_147_483_647;

interface NumberSchema {
  type?: unknown;
  maximum?: number;
  const?: unknown;
  format?: string;
}

/** Says of every integer that may be larger than 2^31 that it needs 64 bits: generated clients take 32 otherwise. */
export function sayLargeIntegers(document: OpenAPIObject): void {
  visit(document.paths);
  visit(document.components);
}

function visit(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  const schema = value as NumberSchema;
  if (isInteger(schema) && !(largestOf(schema) <= LARGEST_INT32)) schema.format ??= 'int64';
  for (const [name, member] of Object.entries(value)) {
    // Examples are values and no schemas.
    if (name !== 'example' && name !== 'examples') visit(member);
  }
}

function isInteger({ type }: NumberSchema): boolean {
  return [type].flat().includes('integer');
}

/** NaN where nothing is said. */
function largestOf({ maximum, const: only }: NumberSchema): number {
  return maximum ?? (typeof only === 'number' ? only : Number.NaN);
}
