import { describe, expect, it } from '@jest/globals';
import { retryAfterMs } from './api-client.js';

describe('Retry-After', () => {
  it.each([
    ['3', 3000],
    ['Thu, 01 Jan 1970 00:00:05 GMT', 4000],
    ['Thu, 01 Jan 1970 00:00:00 GMT', 0],
    ['soon', undefined],
    [null, undefined],
  ])('of %j means %j milliseconds, one second after the epoch', (header, waitMs) => {
    expect(retryAfterMs(header, 1000)).toBe(waitMs);
  });
});
