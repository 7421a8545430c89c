import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { readEvent } from './provider-event.js';
import { eventOf } from './stripe-events.js';

const DIGEST = 'd'.repeat(64);
const KEY = 'a'.repeat(64);
const fact = { subject: 'payment', fact: 'captured', reference: 'pi_1', amount: 100, code: null };
const event = (changes: Record<string, unknown> = {}) =>
  readEvent({ id: 'evt_1', type: 't', metadata: null, fact, ...changes }, DIGEST);

describe('a signed event', () => {
  it('says what it says', () => {
    const metadata = { waybill_tenant: '7', waybill_key: KEY };
    expect(event({ metadata })).toEqual({
      id: 'evt_1',
      type: 't',
      tenantId: 7,
      key: KEY,
      paymentRef: 'pi_1',
      fact: { ...fact },
      problem: null,
    });
  });

  it.each([
    ['no text', 5],
    ['an empty one', ''],
    ['a long one', 'x'.repeat(256)],
    ['one that PostgreSQL cannot hold', 'evt_\0'],
    ['half a character', 'evt_\ud800'],
  ])('whose id is %s is known by its body', (_what, id) => {
    expect(event({ id }).id).toBe(`sha256:${DIGEST}`);
  });

  it.each([
    ['an amount as text', { amount: '100' }, 'a string'],
    ['a part of a minor unit', { amount: 0.5 }, '0.5'],
    ['nothing as an amount', { amount: 0 }, '0'],
    ['an amount below zero', { amount: -1 }, '-1'],
    ['an amount that JSON rounds', { amount: 2 ** 53 }, '9007199254740992'],
    ['a list as an amount', { amount: [] }, 'a list'],
    ['no name of the payment', { reference: null }, 'no name'],
    ['a fact that is unknown', { fact: 'frozen' }, 'no payment and no refund'],
    ['a fact of something else', { fact: 'succeeded' }, 'no payment and no refund'],
    ['a subject that every object has', { subject: 'constructor' }, 'no payment and no refund'],
  ])('with %s has a problem and no fact', (_what, changes, words) => {
    const read = event({ fact: { ...fact, ...changes } });
    expect(read.fact).toBeNull();
    expect(read.problem).toContain(words);
  });

  it('of Stripe can be any JSON at all', () => {
    const types = fc.constantFrom(
      'payment_intent.succeeded',
      'payment_intent.amount_capturable_updated',
      'refund.updated',
      'charge.dispute.funds_withdrawn',
      'payment_intent.payment_failed',
      'customer.created',
    );
    const object = fc.oneof(
      fc.jsonValue(),
      fc.record(
        {
          id: fc.oneof(fc.constant('re_1'), fc.jsonValue()),
          amount: fc.oneof(fc.nat(), fc.jsonValue()),
          amount_received: fc.jsonValue(),
          currency: fc.oneof(fc.constantFrom('eur', 'isk', 'mga'), fc.jsonValue()),
          status: fc.oneof(fc.constantFrom('succeeded', 'failed'), fc.jsonValue()),
          payment_intent: fc.jsonValue(),
          last_payment_error: fc.jsonValue(),
          metadata: fc.jsonValue(),
        },
        { requiredKeys: [] },
      ),
    );
    const anything = fc.oneof(
      fc.jsonValue(),
      fc.record({ id: fc.jsonValue(), type: fc.oneof(types, fc.jsonValue()), data: fc.record({ object }) }),
    );
    fc.assert(
      fc.property(anything, (given) => {
        const { id, type, fact: read, problem } = eventOf(given, DIGEST);
        for (const name of [id, type]) expect(name.length).toBeGreaterThan(0);
        expect(read === null || problem === null).toBe(true);
        if (read?.amount) expect(Number.isSafeInteger(read.amount)).toBe(true);
      }),
    );
  });
});
