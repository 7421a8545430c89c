import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import { CredentialCache, FRESH_MS } from './credential-cache.js';

const HOUR_MS = 3_600_000;
const credential = (expiresAt = Infinity) => ({
  principal: { tenantId: 1, userId: 'u', roles: [] },
  keyId: 'k',
  expiresAt,
});

let cache: CredentialCache;
beforeEach(() => {
  jest.useFakeTimers({ now: Date.parse('2026-01-31T10:00:00Z') });
  cache = new CredentialCache();
});
afterEach(() => {
  jest.useRealTimers();
});

/** The wall clock alone. */
const setBack = (milliseconds: number): void => jest.setSystemTime(Date.now() - milliseconds);

it('asks again after five seconds, whatever the clock on the wall says meanwhile', () => {
  cache.accept('h', credential());
  expect(cache.fresh('h')).toBeDefined();
  setBack(HOUR_MS);
  jest.advanceTimersByTime(FRESH_MS);
  expect(cache.fresh('h')).toBeUndefined();
});

it('ends with the credential, also under a clock that is set back after it was accepted', () => {
  cache.accept('h', credential(Date.now() + 2_000));
  setBack(HOUR_MS);
  jest.advanceTimersByTime(1_999);
  expect(cache.fresh('h')).toBeDefined();
  jest.advanceTimersByTime(1);
  expect(cache.fresh('h')).toBeUndefined();
});
