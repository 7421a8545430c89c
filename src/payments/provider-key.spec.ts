import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { providerKey } from './provider-key.js';

describe('the key under which a provider knows a request', () => {
  it('is the same for the same request, whenever and wherever it is made', () => {
    expect(providerKey(1, 'a-order', 'authorize', 'k')).toBe(
      'bfcd8ae9030a5a91c301a51a73831588cff325c028d9618de86167872f6f7cbe',
    );
  });

  it('is 64 hex digits, and differs when anything differs', () => {
    const request = fc.tuple(
      fc.integer({ min: 1, max: 99 }),
      fc.string(),
      fc.constantFrom('authorize', 'capture', 'void', 'refund'),
      fc.string(),
    );
    fc.assert(
      fc.property(request, request, (a, b) => {
        const [left, right] = [providerKey(...a), providerKey(...b)];
        expect(left).toMatch(/^[0-9a-f]{64}$/);
        expect(left === right).toBe(JSON.stringify(a) === JSON.stringify(b));
      }),
    );
  });

  it('keeps its fields apart', () => {
    expect(providerKey(1, 'ab', 'void', 'c')).not.toBe(providerKey(1, 'a', 'void', 'bc'));
    expect(providerKey(11, '', 'void', '')).not.toBe(providerKey(1, '1', 'void', ''));
  });
});
