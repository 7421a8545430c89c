import { describe, expect, it } from '@jest/globals';
import { RawJson } from '../http/index.js';
import type { OrderDetails } from './order.entity.js';
import { changedFields, editableIn, editablePart, isContact } from './order-edit.js';

const json = (value: unknown) => new RawJson(JSON.stringify(value));

const order = {
  metadata: { a: 1, b: { c: 2 } },
  contacts: {
    customer: json({ name: 'Ada' }),
    shippingAddress: json({ line1: '1', city: 'Ulm', country: 'DE' }),
    billingAddress: null,
  },
  lines: json([
    {
      lineNo: 1,
      sku: 'A',
      name: 'A',
      quantity: 1,
      unitPrice: 2,
      discount: 0,
      taxRatePpm: 0,
      tax: 0,
      total: 2,
      shippedQuantity: 1,
    },
  ]),
  shipping: 5,
} as unknown as OrderDetails;

describe('what may be edited', () => {
  it.each([
    ['pending', ['metadata', 'customer', 'shippingAddress', 'billingAddress', 'lines', 'shipping']],
    ['confirmed', ['metadata', 'customer', 'shippingAddress', 'billingAddress']],
    ['shipped', ['metadata']],
    ['delivered', ['metadata']],
    ['canceled', ['metadata']],
    ['of-an-extension', ['metadata']],
  ])('of an order that is %s', (state, fields) => {
    expect(editableIn(state)).toEqual(fields);
  });

  it('is the part without what is computed or taken away', () => {
    expect(editablePart(order)).toEqual({
      metadata: { a: 1, b: { c: 2 } },
      customer: { name: 'Ada' },
      shippingAddress: { line1: '1', city: 'Ulm', country: 'DE' },
      lines: [{ sku: 'A', name: 'A', quantity: 1, unitPrice: 2, discount: 0, taxRatePpm: 0 }],
      shipping: 5,
    });
  });

  it('has a customer even when all of the personal data is gone', () => {
    expect(editablePart({ ...order, contacts: { ...order.contacts, customer: null } })).toMatchObject({ customer: {} });
  });
});

describe('changed fields', () => {
  const before = editablePart(order);
  it('are none when only the order of members differs', () => {
    expect(changedFields(before, { ...before, metadata: { b: { c: 2 }, a: 1 } })).toEqual([]);
    expect(changedFields(before, { ...before, billingAddress: undefined })).toEqual([]);
  });

  it('are those whose JSON differs, in a fixed order', () => {
    const after = {
      ...before,
      shipping: 6,
      metadata: {},
      shippingAddress: undefined,
      lines: [...before.lines, ...before.lines],
    };
    expect(changedFields(before, after)).toEqual(['metadata', 'shippingAddress', 'lines', 'shipping']);
  });

  it('know contacts from the rest', () => {
    expect(
      ['customer', 'shippingAddress', 'billingAddress', 'metadata', 'lines', 'shipping'].map((f) =>
        isContact(f as never),
      ),
    ).toEqual([true, true, true, false, false, false]);
  });
});
