import {
  AmountField,
  CountryField,
  CurrencyField,
  EmailField,
  IntegerField,
  MetadataField,
  ObjectField,
  ObjectsField,
  PatternField,
  ReferenceField,
  TextField,
} from '../../validation/index.js';
import { ReasonField, StateField } from '../../workflow/index.js';
import { MAX_LINE_AMOUNT, MAX_LINES, MAX_QUANTITY, MAX_TAX_RATE_PPM } from '../order-totals.js';

/** Code points of a reference that the caller makes: of an order or of a customer. */
export const MAX_REFERENCE = 100;

/** Who ordered. Personal data: kept apart from the order, and erased on request. */
export class CustomerContactBody {
  @TextField({ optional: true, max: 200, example: 'Ada Example' })
  name?: string;

  @EmailField({ optional: true, example: 'ada@example.test' })
  email?: string;

  @TextField({ optional: true, max: 40, example: '+49 30 901820' })
  phone?: string;
}

export class CustomerBody extends CustomerContactBody {
  @ReferenceField({
    max: MAX_REFERENCE,
    example: 'c-42',
    description: 'Your own reference for the customer. No place for personal data: it is kept for ever.',
  })
  ref!: string;
}

export class AddressBody {
  @TextField({ optional: true, max: 200, example: 'Ada Example', description: 'To whom it goes.' })
  name?: string;

  @TextField({ max: 200, example: '1 Main St' })
  line1!: string;

  @TextField({ optional: true, max: 200, example: 'Rear building' })
  line2?: string;

  @TextField({ max: 100, example: 'Berlin' })
  city!: string;

  @TextField({ optional: true, max: 100, example: 'BE' })
  region?: string;

  @TextField({ optional: true, max: 20, example: '10115' })
  postalCode?: string;

  @CountryField({ example: 'DE' })
  country!: string;
}

export class LineBody {
  @TextField({ max: 100, example: 'TEA-1' })
  sku!: string;

  @TextField({ max: 300, example: 'Green tea' })
  name!: string;

  @IntegerField({ min: 1, max: MAX_QUANTITY, example: 2 })
  quantity!: number;

  @AmountField({
    example: 1299,
    description: `Price of one, in minor units of the currency; quantity × unitPrice is at most ${MAX_LINE_AMOUNT}.`,
  })
  unitPrice!: number;

  @AmountField({
    optional: true,
    default: 0,
    example: 0,
    description: 'Discount on the whole line, at most quantity × unitPrice, in minor units of the currency.',
  })
  discount?: number;

  @IntegerField({
    optional: true,
    min: 0,
    max: MAX_TAX_RATE_PPM,
    default: 0,
    example: 190000,
    description: 'Tax rate in parts per million: 190000 is 19 %. Tax is rounded half up, line by line.',
  })
  taxRatePpm?: number;
}

const SHIPPING = { example: 490, description: 'Shipping, untaxed, in minor units of the currency.' };

/** What of an order can still change, as a whole: what a merge-patch must result in. */
export class EditableOrderBody {
  @MetadataField()
  metadata!: Record<string, unknown>;

  @ObjectField(CustomerContactBody)
  customer!: CustomerContactBody;

  @ObjectField(AddressBody, { optional: true })
  shippingAddress?: AddressBody;

  @ObjectField(AddressBody, { optional: true })
  billingAddress?: AddressBody;

  @ObjectsField(LineBody, { min: 1, max: MAX_LINES })
  lines!: LineBody[];

  @AmountField(SHIPPING)
  shipping!: number;
}

export class PlaceOrderBody {
  @PatternField(
    /^[a-z0-9][a-z0-9_.-]{0,31}$/,
    'must be 1 to 32 characters of a-z, 0-9, dot, hyphen and underscore, beginning with a letter or digit',
    { example: 'web', description: 'Where the order comes from.' },
  )
  channel!: string;

  @ReferenceField({
    optional: true,
    max: MAX_REFERENCE,
    example: 'web-10001',
    description: 'Your own reference, unique within the channel.',
  })
  externalRef?: string;

  @CurrencyField({ example: 'EUR' })
  currency!: string;

  @ObjectField(CustomerBody)
  customer!: CustomerBody;

  @ObjectField(AddressBody, { optional: true })
  shippingAddress?: AddressBody;

  @ObjectField(AddressBody, { optional: true })
  billingAddress?: AddressBody;

  @ObjectsField(LineBody, { min: 1, max: MAX_LINES })
  lines!: LineBody[];

  @AmountField({ ...SHIPPING, optional: true, default: 0 })
  shipping?: number;

  @AmountField({
    optional: true,
    max: Number.MAX_SAFE_INTEGER,
    example: 3582,
    description: 'The total that you computed. When the service computes another, the order is refused.',
  })
  expectedTotal?: number;

  @MetadataField({ optional: true })
  metadata?: Record<string, unknown>;
}

export class TransitionBody {
  @StateField({ example: 'confirmed' })
  to!: string;

  @ReasonField({ example: 'payment received' })
  reason?: string;

  @MetadataField({ optional: true, description: "Merged into the order's metadata in the same version." })
  metadata?: Record<string, unknown>;
}
