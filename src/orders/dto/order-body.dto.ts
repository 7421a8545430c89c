import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { Type } from 'class-transformer';
import {
  ArrayMaxSize,
  ArrayMinSize,
  IsArray,
  IsDefined,
  IsEmail,
  IsInt,
  IsISO31661Alpha2,
  IsOptional,
  Matches,
  Max,
  MaxLength,
  Min,
  ValidateNested,
} from 'class-validator';
import { IsCurrency, IsMetadata, IsMinorUnits, IsText } from '../../validation/index.js';
import { MAX_AMOUNT } from '../../common/index.js';
import { MAX_LINES, MAX_QUANTITY, MAX_TAX_RATE_PPM } from '../order-totals.js';

const amount = (description: string, example: number) => ({
  description: `${description}, in minor units of the currency.`,
  example,
  type: 'integer' as const,
  minimum: 0,
  maximum: MAX_AMOUNT,
});

/** Who ordered. Personal data: kept apart from the order, and erased on request. */
export class CustomerContactBody {
  @ApiPropertyOptional({ example: 'Ada Example', minLength: 1, maxLength: 200 })
  @IsOptional()
  @IsText(1, 200)
  name?: string;

  @ApiPropertyOptional({ example: 'ada@example.test', format: 'email', maxLength: 254 })
  @IsOptional()
  @MaxLength(254)
  @IsEmail({ allow_utf8_local_part: true })
  email?: string;

  @ApiPropertyOptional({ example: '+49 30 901820', minLength: 1, maxLength: 40 })
  @IsOptional()
  @IsText(1, 40)
  phone?: string;
}

export class CustomerBody extends CustomerContactBody {
  @ApiProperty({
    example: 'c-42',
    minLength: 1,
    maxLength: 100,
    description: 'Your own reference for the customer. No place for personal data: it is kept for ever.',
  })
  @IsText(1, 100)
  ref!: string;
}

export class AddressBody {
  @ApiPropertyOptional({ example: 'Ada Example', minLength: 1, maxLength: 200, description: 'To whom it goes.' })
  @IsOptional()
  @IsText(1, 200)
  name?: string;

  @ApiProperty({ example: '1 Main St', minLength: 1, maxLength: 200 })
  @IsText(1, 200)
  line1!: string;

  @ApiPropertyOptional({ example: 'Rear building', minLength: 1, maxLength: 200 })
  @IsOptional()
  @IsText(1, 200)
  line2?: string;

  @ApiProperty({ example: 'Berlin', minLength: 1, maxLength: 100 })
  @IsText(1, 100)
  city!: string;

  @ApiPropertyOptional({ example: 'BE', minLength: 1, maxLength: 100 })
  @IsOptional()
  @IsText(1, 100)
  region?: string;

  @ApiPropertyOptional({ example: '10115', minLength: 1, maxLength: 20 })
  @IsOptional()
  @IsText(1, 20)
  postalCode?: string;

  @ApiProperty({ example: 'DE', pattern: '^[A-Z]{2}$', description: 'ISO 3166-1 alpha-2.' })
  @Matches(/^[A-Z]{2}$/, { message: '$property must be an ISO 3166-1 alpha-2 code in capitals' })
  @IsISO31661Alpha2()
  country!: string;
}

export class LineBody {
  @ApiProperty({ example: 'TEA-1', minLength: 1, maxLength: 100 })
  @IsText(1, 100)
  sku!: string;

  @ApiProperty({ example: 'Green tea', minLength: 1, maxLength: 300 })
  @IsText(1, 300)
  name!: string;

  @ApiProperty({ example: 2, type: 'integer', minimum: 1, maximum: MAX_QUANTITY })
  @IsInt()
  @Min(1)
  @Max(MAX_QUANTITY)
  quantity!: number;

  @ApiProperty(amount('Price of one', 1299))
  @IsMinorUnits()
  unitPrice!: number;

  @ApiPropertyOptional({ ...amount('Discount on the whole line, at most quantity × unitPrice', 0), default: 0 })
  @IsOptional()
  @IsMinorUnits()
  discount?: number;

  @ApiPropertyOptional({
    example: 190000,
    type: 'integer',
    minimum: 0,
    maximum: MAX_TAX_RATE_PPM,
    default: 0,
    description: 'Tax rate in parts per million: 190000 is 19 %. Tax is rounded half up, line by line.',
  })
  @IsOptional()
  @IsInt()
  @Min(0)
  @Max(MAX_TAX_RATE_PPM)
  taxRatePpm?: number;
}

const METADATA = {
  type: 'object' as const,
  additionalProperties: true,
  example: { campaign: 'spring' },
  description: 'Your own JSON object, at most 50 members and 16 KiB. No place for personal data: it is kept for ever.',
};

/** What of an order can still change, as a whole: what a merge-patch must result in. */
export class EditableOrderBody {
  @ApiProperty(METADATA)
  @IsMetadata()
  metadata!: Record<string, unknown>;

  @ApiProperty({ type: CustomerContactBody })
  @IsDefined()
  @ValidateNested()
  @Type(() => CustomerContactBody)
  customer!: CustomerContactBody;

  @ApiPropertyOptional({ type: AddressBody })
  @IsOptional()
  @ValidateNested()
  @Type(() => AddressBody)
  shippingAddress?: AddressBody;

  @ApiPropertyOptional({ type: AddressBody })
  @IsOptional()
  @ValidateNested()
  @Type(() => AddressBody)
  billingAddress?: AddressBody;

  @ApiProperty({ type: [LineBody], minItems: 1, maxItems: MAX_LINES })
  @IsArray()
  @ArrayMinSize(1)
  @ArrayMaxSize(MAX_LINES)
  @ValidateNested({ each: true })
  @Type(() => LineBody)
  lines!: LineBody[];

  @ApiProperty(amount('Shipping, untaxed', 490))
  @IsMinorUnits()
  shipping!: number;
}

export class PlaceOrderBody {
  @ApiProperty({ example: 'web', pattern: '^[a-z0-9][a-z0-9_.-]{0,31}$', description: 'Where the order comes from.' })
  @Matches(/^[a-z0-9][a-z0-9_.-]{0,31}$/, {
    message:
      '$property must be 1 to 32 characters of a-z, 0-9, dot, hyphen and underscore, beginning with a letter or digit',
  })
  channel!: string;

  @ApiPropertyOptional({
    example: 'web-10001',
    minLength: 1,
    maxLength: 100,
    description: 'Your own reference, unique within the channel.',
  })
  @IsOptional()
  @IsText(1, 100)
  externalRef?: string;

  @ApiProperty({ example: 'EUR', pattern: '^[A-Z]{3}$', description: 'ISO 4217.' })
  @IsCurrency()
  currency!: string;

  @ApiProperty({ type: CustomerBody })
  @IsDefined()
  @ValidateNested()
  @Type(() => CustomerBody)
  customer!: CustomerBody;

  @ApiPropertyOptional({ type: AddressBody })
  @IsOptional()
  @ValidateNested()
  @Type(() => AddressBody)
  shippingAddress?: AddressBody;

  @ApiPropertyOptional({ type: AddressBody })
  @IsOptional()
  @ValidateNested()
  @Type(() => AddressBody)
  billingAddress?: AddressBody;

  @ApiProperty({ type: [LineBody], minItems: 1, maxItems: MAX_LINES })
  @IsArray()
  @ArrayMinSize(1)
  @ArrayMaxSize(MAX_LINES)
  @ValidateNested({ each: true })
  @Type(() => LineBody)
  lines!: LineBody[];

  @ApiPropertyOptional({ ...amount('Shipping, untaxed', 490), default: 0 })
  @IsOptional()
  @IsMinorUnits()
  shipping?: number;

  @ApiPropertyOptional({
    example: 3582,
    type: 'integer',
    minimum: 0,
    description: 'The total that you computed. When the service computes another, the order is refused.',
  })
  @IsOptional()
  @IsMinorUnits({ max: Number.MAX_SAFE_INTEGER })
  expectedTotal?: number;

  @ApiPropertyOptional(METADATA)
  @IsOptional()
  @IsMetadata()
  metadata?: Record<string, unknown>;
}

export class TransitionBody {
  @ApiProperty({ example: 'confirmed', description: 'The state to go to.' })
  @Matches(/^[a-z][a-z0-9_]{0,62}$/, { message: '$property must be the name of a state' })
  to!: string;

  @ApiPropertyOptional({
    example: 'payment received',
    minLength: 1,
    maxLength: 500,
    description: 'Why; some steps require it. No place for personal data: it is kept for ever.',
  })
  @IsOptional()
  @IsText(1, 500)
  reason?: string;

  @ApiPropertyOptional({ ...METADATA, description: "Merged into the order's metadata in the same version." })
  @IsOptional()
  @IsMetadata()
  metadata?: Record<string, unknown>;
}
