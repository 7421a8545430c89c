import type { ArgumentMetadata, PipeTransform, Type } from '@nestjs/common';
import { validate, type ValidationError } from 'class-validator';

import {
  DomainError,
  notFound,
  type ProblemFault,
  validationFailed,
  unknownParameter,
  invalidParameter,
} from '../problems/index.js';
import { isFaultless } from './compiled-checks.js';
import { buildDto, type DtoClass, type StructuralFault } from './dto-builder.js';
import { toJsonPointer } from '../common/index.js';

export const MAX_REPORTED_FAULTS = 50;

/** A declared query without parameters: whatever comes is `unknown-parameter`. */
export class NoQuery {}

/**
 * The global pipe: checks bodies, queries and paths against their DTO classes, and nothing else. Without conversion in
 * bodies; in queries `@Type(() => Number)` and `@Type(() => Boolean)` read plain decimal numbers, true and false.
 *
 * It throws DomainErrors: body `validation-failed` with a pointer for each fault; query `unknown-parameter` or
 * `invalid-parameter` with the parameter's name; path `not-found`, as no resource has such an address.
 */
export function createValidationPipe(): PipeTransform {
  return new DtoValidationPipe();
}

class DtoValidationPipe implements PipeTransform {
  async transform(value: unknown, { type, metatype, data }: ArgumentMetadata): Promise<unknown> {
    // Decorators that pick one member (`@Query('x')`) or make their own argument bring no DTO.
    if (type === 'custom' || data !== undefined || !isDtoClass(metatype)) return value;
    switch (type) {
      case 'body':
        return checkBody(metatype, value);
      case 'query':
        return checkQuery(metatype, value);
      case 'param':
        return checkPath(metatype, value);
      default:
        return refuseType(type);
    }
  }
}

async function checkBody(dtoClass: DtoClass, value: unknown): Promise<object> {
  if (!isObject(value)) {
    const detail = 'The body must be a JSON object.';
    throw new DomainError(validationFailed, detail, { errors: [{ pointer: '', detail }] });
  }
  const structural: StructuralFault[] = [];
  const dto = buildDto(dtoClass, value, { fromText: false }, structural);
  const faults = await findFaults(dto, structural);
  if (faults.length === 0) return dto;
  throw new DomainError(validationFailed, summarise(faults.length, 'The body'), {
    errors: cap(faults.map(({ path, detail }) => ({ pointer: toJsonPointer(path), detail }))),
  });
}

async function checkQuery(dtoClass: DtoClass, value: unknown): Promise<object> {
  const structural: StructuralFault[] = [];
  const query = isObject(value) ? value : {};
  const dto = buildDto(dtoClass, withoutUnusable(query, structural), { fromText: true }, structural);
  const faults = await findFaults(dto, structural);
  if (faults.length === 0) return dto;
  const isUnknown = faults.every(({ kind }) => kind === 'unknown');
  throw new DomainError(isUnknown ? unknownParameter : invalidParameter, summarise(faults.length, 'The query string'), {
    errors: cap(faults.map(({ path, detail }) => ({ parameter: String(path[0]), detail }))),
  });
}

async function checkPath(dtoClass: DtoClass, value: unknown): Promise<object> {
  const structural: StructuralFault[] = [];
  const dto = buildDto(dtoClass, isObject(value) ? value : {}, { fromText: true }, structural);
  const faults = await findFaults(dto, structural);
  if (faults.length > 0) throw new DomainError(notFound, 'There is nothing at this address.');
  return dto;
}

/** Takes out what no parameter can be: one that is given twice, and text that PostgreSQL can't hold. */
function withoutUnusable(query: object, faults: StructuralFault[]): object {
  const usable = Object.entries(query).filter(([name, value]: [string, unknown]) => {
    if (Array.isArray(value)) {
      faults.push({ path: [name], kind: 'shape', detail: `${name} is given more than once` });
      return false;
    }
    if (typeof value === 'string' && /\0|\p{Surrogate}/u.test(value)) {
      faults.push({ path: [name], kind: 'shape', detail: `${name} holds characters that are not accepted` });
      return false;
    }
    return true;
  });
  return Object.fromEntries(usable);
}

interface Fault {
  path: (string | number)[];
  kind: 'unknown' | 'shape' | 'value';
  detail: string;
}

async function findFaults(dto: object, structural: readonly StructuralFault[]): Promise<Fault[]> {
  if (isFaultless(dto)) return [...structural];
  const errors = await validate(dto, { forbidUnknownValues: false, validationError: { target: false, value: false } });
  if (errors.length === 0) return [...structural];
  // A property of the wrong shape is undefined by now; that it is missing as well would only confuse.
  const reported = new Set(structural.map(({ path }) => toJsonPointer(path)));
  const values = errors.flatMap((error) => flatten(error, []));
  return [...structural, ...values.filter(({ path }) => !reported.has(toJsonPointer(path)))];
}

function flatten(error: ValidationError, parent: readonly (string | number)[]): Fault[] {
  const path = [...parent, error.property];
  const own = Object.values(error.constraints ?? {}).map((detail): Fault => ({ path, kind: 'value', detail }));
  return [...own, ...(error.children ?? []).flatMap((child) => flatten(child, path))];
}

function cap(faults: ProblemFault[]): ProblemFault[] {
  return faults.slice(0, MAX_REPORTED_FAULTS);
}

function summarise(count: number, subject: string): string {
  if (count === 1) return `${subject} has one fault.`;
  const shown = count > MAX_REPORTED_FAULTS ? `; the first ${MAX_REPORTED_FAULTS} are listed` : '';
  return `${subject} has ${count} faults${shown}.`;
}

const BUILT_IN = new Set<unknown>([Object, Array, String, Number, Boolean, Date, Buffer]);

function isDtoClass(metatype: Type<unknown> | undefined): metatype is Type<object> {
  return metatype !== undefined && !BUILT_IN.has(metatype);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function refuseType(type: never): never {
  throw new TypeError(`No rule for arguments of type ${String(type)}`);
}
