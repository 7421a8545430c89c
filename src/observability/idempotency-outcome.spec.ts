import { describe, expect, it } from '@jest/globals';
import { idempotencyOutcome, type IdempotencyOutcome } from './idempotency-outcome.js';

describe('the idempotency outcome of a request', () => {
  it.each<[IdempotencyOutcome | undefined, boolean, boolean, number, string | undefined]>([
    ['executed', true, false, 201, undefined],
    ['replayed', true, true, 201, undefined],
    ['replayed', true, true, 409, undefined],
    ['refused', true, false, 409, undefined],
    ['in-flight', true, false, 409, 'idempotency-key-in-flight'],
    ['reused', true, false, 422, 'idempotency-key-reused'],
    ['invalid', true, false, 400, 'idempotency-key-invalid'],
    ['missing', false, false, 400, 'idempotency-key-missing'],
    ['erased', true, false, 410, 'answer-erased'],
    ['released', true, false, 503, 'unavailable'],
    [undefined, false, false, 200, undefined],
    [undefined, false, false, 404, 'not-found'],
  ])('is %s with key %s, replay %s, status %s, problem %s', (outcome, hasKey, replayed, status, problem) => {
    expect(idempotencyOutcome({ hasKey, replayed, status, problem })).toBe(outcome);
  });
});
