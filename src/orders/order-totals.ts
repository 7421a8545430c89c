import { isIntegerWithin, MAX_AMOUNT } from '../common/index.js';

/*
 * What an order costs, in integer minor units (cents, yen, fils) and nothing else. The bounds are chosen so that every sum
 * of an order stays below 2^53 in JavaScript, and base × rate stays within int8 in SQL.
 */
export const MAX_LINES = 250;
export const MAX_QUANTITY = 1_000_000;
/** Bound of quantity × unit price of one line. */
export const MAX_LINE_AMOUNT = 9_000_000_000_000;
/** Parts per million: 100 %. */
export const MAX_TAX_RATE_PPM = 1_000_000;

const PPM = 1_000_000n;

/** What a line's amounts are computed from; amounts in minor units. */
export interface MoneyLine {
  quantity: number;
  unitPrice: number;
  discount: number;
  taxRatePpm: number;
}

export interface LineAmounts {
  tax: number;
  total: number;
}

export interface OrderTotals {
  subtotal: number;
  discount: number;
  tax: number;
  shipping: number;
  total: number;
  lines: LineAmounts[];
}

/** The member of a line that is out of bounds, and why. */
export interface LineFault {
  field: keyof MoneyLine;
  detail: string;
}

/** The first fault of a line's numbers, or undefined. The rules that no single field can be checked for are here too. */
export function findLineFault(line: MoneyLine): LineFault | undefined {
  const { quantity, unitPrice, discount, taxRatePpm } = line;
  if (!isIntegerWithin(quantity, 1, MAX_QUANTITY)) {
    return { field: 'quantity', detail: `quantity must be an integer from 1 to ${MAX_QUANTITY}` };
  }
  if (!isIntegerWithin(unitPrice, 0, MAX_AMOUNT)) {
    return { field: 'unitPrice', detail: `unitPrice must be an integer from 0 to ${MAX_AMOUNT} minor units` };
  }
  if (!isIntegerWithin(taxRatePpm, 0, MAX_TAX_RATE_PPM)) {
    return { field: 'taxRatePpm', detail: `taxRatePpm must be an integer from 0 to ${MAX_TAX_RATE_PPM}` };
  }
  // The product of the two bounds is above 2^53, and then inexact, but far above this bound as well.
  if (quantity * unitPrice > MAX_LINE_AMOUNT) {
    return { field: 'unitPrice', detail: `quantity × unitPrice must not exceed ${MAX_LINE_AMOUNT} minor units` };
  }
  if (!isIntegerWithin(discount, 0, quantity * unitPrice)) {
    return { field: 'discount', detail: 'discount must be an integer from 0 to quantity × unitPrice' };
  }
  return undefined;
}

/**
 * Tax of one line: (quantity × unitPrice − discount) × rate, rounded half up to a minor unit.
 * @throws RangeError when a number is out of bounds
 */
export function lineTax(quantity: number, unitPrice: number, discount: number, taxRatePpm: number): number {
  const fault = findLineFault({ quantity, unitPrice, discount, taxRatePpm });
  if (fault) throw new RangeError(fault.detail);
  const base = quantity * unitPrice - discount;
  return Number((BigInt(base) * BigInt(taxRatePpm) + PPM / 2n) / PPM);
}

/**
 * An order's totals: sums of integers over its lines. total = subtotal − discount + tax + shipping; shipping is untaxed.
 * @throws RangeError when a number is out of bounds or there are more than 250 lines
 */
export function orderTotals(lines: readonly MoneyLine[], shipping: number): OrderTotals {
  if (lines.length > MAX_LINES) throw new RangeError(`an order has at most ${MAX_LINES} lines`);
  if (!isIntegerWithin(shipping, 0, MAX_AMOUNT)) {
    throw new RangeError(`shipping must be an integer from 0 to ${MAX_AMOUNT} minor units`);
  }
  const totals: OrderTotals = { subtotal: 0, discount: 0, tax: 0, shipping, total: 0, lines: [] };
  for (const { quantity, unitPrice, discount, taxRatePpm } of lines) {
    const tax = lineTax(quantity, unitPrice, discount, taxRatePpm);
    const amount = quantity * unitPrice;
    totals.subtotal += amount;
    totals.discount += discount;
    totals.tax += tax;
    totals.lines.push({ tax, total: amount - discount + tax });
  }
  totals.total = totals.subtotal - totals.discount + totals.tax + totals.shipping;
  return totals;
}
