import { randomBytes } from 'node:crypto';
import { RawJson } from '../http/index.js';
import type { Contact, ContactField, ContactTexts, OrderDetails, OrderLine, OrderRow } from './order.entity.js';
import type { OrderTotals } from './order-totals.js';

/** What a line is before anything is computed; amounts in minor units. */
export interface NewLine {
  sku: string;
  name: string;
  quantity: number;
  unitPrice: number;
  discount: number;
  taxRatePpm: number;
}

/** The field groups to write; null takes one away. */
export type Contacts = Partial<Record<ContactField, Contact | null>>;

const SALT_BYTES = 32;

export function orderOf(row: OrderRow): OrderDetails {
  const { customer, shippingAddress, billingAddress, lines, ...order } = row;
  return { ...order, lines: new RawJson(lines), contacts: contactTexts({ customer, shippingAddress, billingAddress }) };
}

/** As the view has them: the text `null` says that a group was taken away. */
export function contactTexts(texts: Partial<Record<ContactField, string | null>>): ContactTexts {
  const textOf = (text: string | null | undefined): RawJson | null =>
    text && text !== 'null' ? new RawJson(text) : null;
  return {
    customer: textOf(texts.customer),
    shippingAddress: textOf(texts.shippingAddress),
    billingAddress: textOf(texts.billingAddress),
  };
}

/** The lines of a new order as the view `waybill.order_line_texts` shows them. */
export function linesOf(lines: readonly NewLine[], totals: OrderTotals): RawJson {
  const placed = lines.map(({ sku, name, quantity, unitPrice, discount, taxRatePpm }, index): OrderLine => {
    const { tax = 0, total = 0 } = totals.lines[index] ?? {};
    const amounts = { quantity, unitPrice, discount, taxRatePpm, tax, total };
    return { lineNo: index + 1, sku, name, ...amounts, shippedQuantity: 0 };
  });
  return new RawJson(JSON.stringify(placed));
}

/** Parallel arrays of lines, as commands take them. */
export function lineArguments(lines: readonly NewLine[], totals: OrderTotals) {
  return {
    skus: lines.map(({ sku }) => sku),
    names: lines.map(({ name }) => name),
    quantities: lines.map(({ quantity }) => quantity),
    unitPrices: lines.map(({ unitPrice }) => unitPrice),
    discounts: lines.map(({ discount }) => discount),
    taxRates: lines.map(({ taxRatePpm }) => taxRatePpm),
    taxes: totals.lines.map(({ tax }) => tax),
    totals: totals.lines.map(({ total }) => total),
  };
}

/** Parallel arrays of contacts, each with a salt of its own. */
export function contactArguments(contacts: Contacts) {
  const given = Object.entries(contacts);
  return {
    fields: given.map(([field]) => field),
    values: given.map(([, value]) => JSON.stringify(value)),
    salts: given.map(() => randomBytes(SALT_BYTES)),
  };
}
