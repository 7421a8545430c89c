import { describe, expect, it } from '@jest/globals';
import { FAULTS, faultOf } from './simulated-token.js';

describe('what goes wrong with a simulated request', () => {
  it.each(FAULTS)('%s: with the first request of the operation that the token names', (fault) => {
    expect(faultOf(`tok_${fault}`, 'authorize', 'k', 1)).toBe(fault);
    expect(faultOf(`tok_${fault}`, 'authorize', 'k', 2)).toBeNull();
    expect(faultOf(`tok_${fault}`, 'capture', 'k', 1)).toBeNull();
    expect(faultOf(`tok_capture_${fault}`, 'capture', 'k', 1)).toBe(fault);
    expect(faultOf(`tok_capture_${fault}`, 'authorize', 'k', 1)).toBeNull();
  });

  it.each(['tok_approve', 'tok_declined_stolen_card', 'pm_card_visa', ''])('nothing: %s', (token) => {
    expect(faultOf(token, 'authorize', 'k', 1)).toBeNull();
  });

  it('with tok_chaos about every second one, in every way, and the same way for the same request', () => {
    const drawn = Array.from({ length: 1000 }, (_, i) => faultOf('tok_chaos', 'capture', `key-${i}`, 1));
    const wrong = drawn.filter((fault) => fault !== null);
    expect(wrong.length).toBeGreaterThan(400);
    expect(wrong.length).toBeLessThan(600);
    expect(new Set(wrong)).toEqual(new Set(FAULTS));
    expect(faultOf('tok_chaos', 'capture', 'key-1', 1)).toBe(drawn[1]);
  });
});
