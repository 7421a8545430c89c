import { describe, expect, it } from '@jest/globals';
import { RateLimiter } from './rate-limiter.js';
import { addressGroup } from './rate-limits.js';

describe('RateLimiter', () => {
  const start = (limit: number, windowSeconds: number) => {
    const clock = { now: 1_000 };
    return { clock, limiter: new RateLimiter({ limit, windowSeconds }, () => clock.now) };
  };

  it('lets a whole quota through at once, and then one by one as it comes back', () => {
    const { clock, limiter } = start(6, 60);
    const states = Array.from({ length: 7 }, () => limiter.take('a'));
    expect(states.map(({ limited }) => limited)).toEqual([false, false, false, false, false, false, true]);
    expect(states.map(({ remaining }) => remaining)).toEqual([5, 4, 3, 2, 1, 0, 0]);
    expect(states[6]).toEqual({ limited: true, remaining: 0, resetSeconds: 60, retryAfterSeconds: 10 });
    clock.now += 9_900;
    expect(limiter.take('a').limited).toBe(true);
    clock.now += 200;
    expect(limiter.take('a').limited).toBe(false);
    expect(limiter.take('a').limited).toBe(true);
  });

  it('is no stricter for those who go on trying', () => {
    const { clock, limiter } = start(1, 10);
    limiter.take('a');
    for (let i = 0; i < 50; i += 1) limiter.take('a');
    clock.now += 10_000;
    expect(limiter.take('a').limited).toBe(false);
  });

  it('counts callers apart and gives back', () => {
    const { limiter } = start(1, 60);
    limiter.take('a');
    expect(limiter.take('b').limited).toBe(false);
    limiter.giveBack('a');
    expect(limiter.take('a').limited).toBe(false);
    expect(limiter.take('a').limited).toBe(true);
  });

  it('takes the whole of a quota whose interval is no whole number', () => {
    const { limiter } = start(60_000, 7);
    const limited = Array.from({ length: 60_000 }, () => limiter.take('a').limited);
    expect(limited.some(Boolean)).toBe(false);
    expect(limiter.take('a').limited).toBe(true);
  });
});

describe('addressGroup', () => {
  it.each([
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:db8:1:2::6', '2001:db8:1:2'],
    ['2001:db8::6', '2001:db8:0:0'],
    ['::1', '0:0:0:0'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
  ])('counts %s as %s', (ip, group) => {
    expect(addressGroup(ip)).toBe(group);
  });
});
