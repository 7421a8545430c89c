import { canonicalJson, isJsonObject } from '../common/index.js';
import type { Contact, ContactField, OrderDetails, OrderLine } from './order.entity.js';

/** The part of an order that a merge-patch is applied to, in the words of the API. */
export interface EditableOrder {
  metadata: Record<string, unknown>;
  customer: Contact;
  shippingAddress?: Contact;
  billingAddress?: Contact;
  lines: EditableLine[];
  shipping: number;
}

export interface EditableLine {
  sku: string;
  name: string;
  quantity: number;
  unitPrice: number;
  discount: number;
  taxRatePpm: number;
}

export type EditableField = keyof EditableOrder;

const CONTACTS: readonly ContactField[] = ['customer', 'shippingAddress', 'billingAddress'];
const ALWAYS: readonly EditableField[] = ['metadata'];
const UNTIL_SHIPPED: readonly EditableField[] = [...ALWAYS, ...CONTACTS];
const WHILE_PENDING: readonly EditableField[] = [...UNTIL_SHIPPED, 'lines', 'shipping'];

/** What may still change in a state; the database refuses the same. States that an extension added allow the least. */
export function editableIn(state: string): readonly EditableField[] {
  switch (state) {
    case 'pending':
      return WHILE_PENDING;
    case 'confirmed':
      return UNTIL_SHIPPED;
    default:
      return ALWAYS;
  }
}

export function editablePart({ metadata, contacts, lines, shipping }: OrderDetails): EditableOrder {
  const valueOf = (field: ContactField): Contact | undefined => contacts[field]?.value as Contact | undefined;
  const [shippingAddress, billingAddress] = [valueOf('shippingAddress'), valueOf('billingAddress')];
  return {
    metadata,
    customer: valueOf('customer') ?? {},
    ...(shippingAddress ? { shippingAddress } : {}),
    ...(billingAddress ? { billingAddress } : {}),
    lines: (lines.value as OrderLine[]).map(({ sku, name, quantity, unitPrice, discount, taxRatePpm }) => ({
      sku,
      name,
      quantity,
      unitPrice,
      discount,
      taxRatePpm,
    })),
    shipping,
  };
}

const ADDRESS = ['name', 'line1', 'line2', 'city', 'region', 'postalCode', 'country'];
const MEMBERS: Partial<Record<EditableField, readonly string[]>> = {
  customer: ['name', 'email', 'phone'],
  shippingAddress: ADDRESS,
  billingAddress: ADDRESS,
};

/**
 * Members that a patch takes away and that there are none of. Any other unknown member shows in what the patch results
 * in; one that is null leaves no trace there.
 *
 * @returns their paths
 */
export function unknownRemovals(patch: unknown): string[][] {
  if (!isJsonObject(patch)) return [];
  return Object.entries(patch).flatMap(([field, value]: [string, unknown]) => {
    const known = WHILE_PENDING.find((name) => name === field);
    if (!known) return value === null ? [[field]] : [];
    const members = MEMBERS[known];
    if (!members || !isJsonObject(value)) return [];
    return Object.entries(value)
      .filter(([name, member]) => member === null && !members.includes(name))
      .map(([name]) => [field, name]);
  });
}

/** The fields in which two editions differ as JSON. */
export function changedFields(before: EditableOrder, after: EditableOrder): EditableField[] {
  return WHILE_PENDING.filter((field) => canonicalJson(before[field] ?? null) !== canonicalJson(after[field] ?? null));
}

export function isContact(field: EditableField): field is ContactField {
  return CONTACTS.some((contact) => contact === field);
}
