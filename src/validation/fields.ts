import { applyDecorators } from '@nestjs/common';
import { ApiProperty, type ApiPropertyOptions } from '@nestjs/swagger';
import { Type } from 'class-transformer';
import {
  ArrayMaxSize,
  ArrayMinSize,
  ArrayUnique,
  IsArray,
  IsBoolean,
  IsDefined,
  IsEmail,
  IsIn,
  IsInt,
  IsISO31661Alpha2,
  IsOptional,
  IsUUID,
  Matches,
  Max,
  MaxLength,
  Min,
  ValidateNested,
} from 'class-validator';
import { MAX_AMOUNT } from '../common/index.js';
import type { DtoClass } from './dto-builder.js';
import {
  IsCurrency,
  IsMetadata,
  IsMinorUnits,
  IsReference,
  IsText,
  IsTimestamp,
  MAX_METADATA_BYTES,
  MAX_METADATA_DEPTH,
  MAX_METADATA_KEY_LENGTH,
  MAX_METADATA_KEYS,
} from './value-checks.js';

/*
 * Fields of DTOs that requests bring. Each says once what it takes, for the check and for the API document. A field that is
 * optional may be missing or null.
 */

/** What a field says of itself beside its bounds. */
export interface FieldOptions {
  optional?: boolean;
  description?: string;
  example?: unknown;
  default?: unknown;
}

/** Bounds that a value may reach. */
interface Bounds {
  min: number;
  max: number;
}

/** Text of `min` (1) to `max` code points, not blank and without control characters. */
export function TextField({ min = 1, max, ...said }: FieldOptions & { min?: number; max: number }): PropertyDecorator {
  return field({ type: 'string', minLength: min, maxLength: max }, said, [IsText(min, max)]);
}

/** A name that another system gave, of at most `max` code points: no two that read the same are different. */
export function ReferenceField({ max, description, ...said }: FieldOptions & { max: number }): PropertyDecorator {
  const form =
    'Neither `.` nor `..`; in Unicode normalization form C, without invisible characters and without white space but spaces inside.';
  const document = { type: 'string' as const, minLength: 1, maxLength: max };
  return field(document, { ...said, description: [description, form].filter(Boolean).join(' ') }, [IsReference(max)]);
}

/** Text of a form. `form` says it in words, to follow the field's name: `must be …`. */
export function PatternField(pattern: RegExp, form: string, said: FieldOptions = {}): PropertyDecorator {
  const check = Matches(pattern, { message: `$property ${form}` });
  return field({ type: 'string', pattern: pattern.source }, said, [check]);
}

/** A list of different texts of a form, at most `max` of them. */
export function PatternsField(pattern: RegExp, { max, ...said }: FieldOptions & { max: number }): PropertyDecorator {
  const items = { type: 'string' as const, pattern: pattern.source };
  const checks = [IsArray(), ArrayMaxSize(max), ArrayUnique(), Matches(pattern, { each: true })];
  return field({ type: 'array', items, maxItems: max, uniqueItems: true }, said, checks);
}

export function IntegerField({ min, max, ...said }: FieldOptions & Bounds): PropertyDecorator {
  const checks = [Type(() => Number), IsInt(), Min(min), Max(max)];
  return field({ type: 'integer', minimum: min, maximum: max }, said, checks);
}

/** Whole minor units of a currency. */
export function AmountField({ min = 0, max = MAX_AMOUNT, ...said }: FieldOptions & Partial<Bounds>): PropertyDecorator {
  return field({ type: 'integer', minimum: min, maximum: max }, said, [IsMinorUnits({ min, max })]);
}

/** The ISO 4217 code of a currency in use. */
export function CurrencyField(said: FieldOptions = {}): PropertyDecorator {
  return field({ type: 'string', pattern: '^[A-Z]{3}$', description: 'ISO 4217.' }, said, [IsCurrency()]);
}

/** RFC 3339 with an offset and at most nine decimals. */
export function TimestampField(said: FieldOptions = {}): PropertyDecorator {
  return field({ type: 'string', format: 'date-time' }, said, [IsTimestamp()]);
}

export function UuidField(said: FieldOptions = {}): PropertyDecorator {
  return field({ type: 'string', format: 'uuid' }, said, [IsUUID()]);
}

export function BooleanField(said: FieldOptions = {}): PropertyDecorator {
  return field({ type: 'boolean' }, said, [IsBoolean()]);
}

/** One of these texts. */
export function ChoiceField(choices: readonly string[], said: FieldOptions = {}): PropertyDecorator {
  return field({ type: 'string', enum: [...choices] }, said, [IsIn(choices)]);
}

const LONGEST_EMAIL = 254;

export function EmailField(said: FieldOptions = {}): PropertyDecorator {
  const checks = [MaxLength(LONGEST_EMAIL), IsEmail({ allow_utf8_local_part: true })];
  return field({ type: 'string', format: 'email', maxLength: LONGEST_EMAIL }, said, checks);
}

const TWO_CAPITALS = /^[A-Z]{2}$/;

export function CountryField(said: FieldOptions = {}): PropertyDecorator {
  const inCapitals = Matches(TWO_CAPITALS, { message: '$property must be an ISO 3166-1 alpha-2 code in capitals' });
  const document = { type: 'string' as const, pattern: TWO_CAPITALS.source, description: 'ISO 3166-1 alpha-2.' };
  return field(document, said, [inCapitals, IsISO31661Alpha2()]);
}

const METADATA_BOUNDS =
  `At most ${MAX_METADATA_KEYS} members, ${MAX_METADATA_DEPTH} levels deep, ${MAX_METADATA_BYTES / 1024} KiB as JSON, with member ` +
  `names of 1 to ${MAX_METADATA_KEY_LENGTH} characters on its first level. Numbers are kept exactly or refused: integers up to 2^53, ` +
  'and decimals that a double tells apart, as it does all of 15 significant digits; send others as text. No place for personal ' +
  'data: it is kept for ever.';

/** A JSON object of the caller's own: any values, within bounds. */
export function MetadataField({
  description = 'Your own JSON object.',
  ...said
}: FieldOptions = {}): PropertyDecorator {
  const document = {
    type: 'object' as const,
    additionalProperties: true,
    maxProperties: MAX_METADATA_KEYS,
    propertyNames: { minLength: 1, maxLength: MAX_METADATA_KEY_LENGTH },
    description: `${description} ${METADATA_BOUNDS}`,
  } as ApiPropertyOptions;
  return field(document, { example: { campaign: 'spring' }, ...said }, [IsMetadata()]);
}

/** An object with fields of its own. */
export function ObjectField(dto: DtoClass, said: FieldOptions = {}): PropertyDecorator {
  const present = said.optional ? [] : [IsDefined()];
  return field({ type: dto }, said, [...present, ValidateNested(), Type(() => dto)]);
}

/** A list of objects with fields of their own. */
export function ObjectsField(dto: DtoClass, { min, max, ...said }: FieldOptions & Bounds): PropertyDecorator {
  const checks = [IsArray(), ArrayMinSize(min), ArrayMaxSize(max), ValidateNested({ each: true }), Type(() => dto)];
  return field({ type: [dto], minItems: min, maxItems: max }, said, checks);
}

/** @param checks in the order in which decorators stand above a property: the last one is applied first */
function field(
  document: ApiPropertyOptions,
  { optional = false, ...said }: FieldOptions,
  checks: readonly PropertyDecorator[],
): PropertyDecorator {
  const documented = ApiProperty({ ...document, ...said, required: !optional } as ApiPropertyOptions);
  const all = [documented, ...(optional ? [IsOptional()] : []), ...checks];
  return applyDecorators(...all.toReversed());
}
