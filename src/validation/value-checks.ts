import { ValidateBy, buildMessage, type ValidationOptions } from 'class-validator';

import { canonicalJson, isBlank, isCurrency, isReference, MAX_AMOUNT, parseTimestamp } from '../common/index.js';

// Cc control, Cs lone surrogates, and line and paragraph separators, which no single-line text needs.
const UNPRINTABLE = /[\p{Cc}\p{Cs}\u2028\u2029]/u;

/** Text of min to max code points, without control characters, and not blank (unless min is 0 and it is ''). */
export function IsText(min: number, max: number, options?: ValidationOptions): PropertyDecorator {
  return validateBy(
    'isText',
    (value) => isText(value, min, max),
    `$property must be a text of ${min} to ${max} characters, not blank and without control characters`,
    options,
  );
}

export function isText(value: unknown, min: number, max: number): value is string {
  // A code point is at most two units: an early way out that spares counting a megabyte.
  if (typeof value !== 'string' || value.length > 2 * max) return false;
  if (value === '') return min === 0;
  const length = Array.from(value).length;
  return length >= min && length <= max && !isBlank(value) && !UNPRINTABLE.test(value);
}

/** A name that another system gave, of at most max code points; see `isReference`. */
export function IsReference(max: number, options?: ValidationOptions): PropertyDecorator {
  return validateBy(
    'isReference',
    (value) => isText(value, 1, max) && isReference(value),
    `$property must be a text of 1 to ${max} characters, neither '.' nor '..', in Unicode normalization form C, ` +
      'without invisible characters and without white space but spaces inside',
    options,
  );
}

/** Whole minor units of a currency, from `min` (0) to `max` (9 × 10^12). */
export function IsMinorUnits(
  { min = 0, max = MAX_AMOUNT }: { min?: number; max?: number } = {},
  options?: ValidationOptions,
): PropertyDecorator {
  return validateBy(
    'isMinorUnits',
    (value) => Number.isInteger(value) && (value as number) >= min && (value as number) <= max,
    `$property must be an integer from ${min} to ${max}, in minor units`,
    options,
  );
}

/** An ISO 4217 code in use. */
export function IsCurrency(options?: ValidationOptions): PropertyDecorator {
  return validateBy(
    'isCurrency',
    (value) => typeof value === 'string' && isCurrency(value),
    '$property must be the ISO 4217 code of a currency in use, in capitals',
    options,
  );
}

/** An RFC 3339 timestamp with an offset and at most nine decimals; `parseTimestamp` gives its UTC form. */
export function IsTimestamp(options?: ValidationOptions): PropertyDecorator {
  return validateBy(
    'isTimestamp',
    (value) => typeof value === 'string' && parseTimestamp(value, 'later') !== undefined,
    '$property must be an RFC 3339 timestamp with an offset and at most nine decimals (in a query, + is written %2B)',
    options,
  );
}

export const MAX_METADATA_KEYS = 50;
export const MAX_METADATA_KEY_LENGTH = 64;
export const MAX_METADATA_BYTES = 16_384;
export const MAX_METADATA_DEPTH = 8;

/** A JSON object of the caller's own: any values, within bounds. It reaches the handler exactly as it was sent. */
export function IsMetadata(options?: ValidationOptions): PropertyDecorator {
  return validateBy(
    'isMetadata',
    (value) => findMetadataFault(value) === undefined,
    (property, value) => `${property} ${findMetadataFault(value) ?? 'must be a JSON object'}`,
    options,
  );
}

/** What is wrong with metadata, to follow the property's name; undefined when nothing is. */
export function findMetadataFault(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'must be a JSON object';
  const keys = Object.keys(value);
  if (keys.length > MAX_METADATA_KEYS) return `must have at most ${MAX_METADATA_KEYS} keys`;
  if (!keys.every((key) => isText(key, 1, MAX_METADATA_KEY_LENGTH))) {
    return `must have keys of 1 to ${MAX_METADATA_KEY_LENGTH} characters, not blank and without control characters`;
  }
  if (isDeeperThan(value, MAX_METADATA_DEPTH)) return `must not be nested deeper than ${MAX_METADATA_DEPTH} levels`;
  if (Buffer.byteLength(canonicalJson(value)) > MAX_METADATA_BYTES) {
    return `must not be larger than ${MAX_METADATA_BYTES} bytes as JSON`;
  }
  return undefined;
}

/** The object itself is level 1. */
function isDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((member) => isDeeperThan(member, levels - 1));
}

function validateBy(
  name: string,
  validate: (value: unknown) => boolean,
  message: string | ((property: string, value: unknown) => string),
  options: ValidationOptions | undefined,
): PropertyDecorator {
  return ValidateBy(
    {
      name,
      validator: {
        validate,
        defaultMessage: buildMessage(
          (each, args) => each + (typeof message === 'string' ? message : message(args?.property ?? '', args?.value)),
          options,
        ),
      },
    },
    options,
  );
}
