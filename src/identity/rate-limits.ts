import { isIPv6, SocketAddress } from 'node:net';
import { DomainError, rateLimited } from '../problems/index.js';
import { type Quota, RateLimiter, type RateState } from './rate-limiter.js';

/** Quotas by what they count; null counts nothing. */
export interface RateLimitSettings {
  /** All requests of one address, before anybody is known. */
  address: Quota | null;
  /** All requests of one user. */
  principal: Quota | null;
  /** Refused credentials of one address. */
  failures: Quota | null;
}

export class RateLimited extends DomainError<typeof rateLimited> {
  constructor(detail: string, policy: LimitPolicy, state: RateState) {
    super(rateLimited, detail, {}, { retryAfterSeconds: state.retryAfterSeconds, headers: policy.headers(state) });
  }
}

/** One quota by name, with the headers that tell of it (draft-ietf-httpapi-ratelimit-headers-10). */
export class LimitPolicy {
  private readonly limiter: RateLimiter | null;

  constructor(
    private readonly name: keyof RateLimitSettings,
    quota: Quota | null,
    private readonly advice: string,
  ) {
    this.limiter = quota && new RateLimiter(quota);
  }

  /**
   * @returns headers for the answer
   * @throws RateLimited when nothing is left
   */
  take(caller: string): Record<string, string> {
    if (!this.limiter) return {};
    const state = this.limiter.take(caller);
    if (state.limited) throw new RateLimited(this.advice, this, state);
    return this.headers(state);
  }

  giveBack(caller: string): void {
    this.limiter?.giveBack(caller);
  }

  headers({ remaining, resetSeconds }: RateState): Record<string, string> {
    const { limit, windowSeconds } = this.limiter?.quota ?? { limit: 0, windowSeconds: 0 };
    return {
      ratelimit: `"${this.name}";r=${remaining};t=${resetSeconds}`,
      'ratelimit-policy': `"${this.name}";q=${limit};w=${windowSeconds}`,
    };
  }
}

export class RateLimits {
  readonly address: LimitPolicy;
  readonly principal: LimitPolicy;
  readonly failures: LimitPolicy;

  constructor({ address, principal, failures }: RateLimitSettings) {
    this.address = new LimitPolicy('address', address, 'Too many requests come from this address.');
    this.principal = new LimitPolicy('principal', principal, 'These credentials are used too often.');
    this.failures = new LimitPolicy(
      'failures',
      failures,
      'Too many credentials from this address were refused. Those that were accepted lately still work.',
    );
  }
}

/** Whom an address counts for: a household or a server gets a whole /64 of IPv6. */
export function addressGroup(ip: string): string {
  if (!isIPv6(ip)) return ip;
  // One address has many texts: capitals, zeros, IPv4 in hexadecimal.
  const { address } = new SocketAddress({ address: ip, family: 'ipv6' });
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(address);
  if (mapped?.[1]) return mapped[1];
  const [head = '', tail] = address.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros =
    tail === undefined ? [] : Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => '0');
  return [...left, ...zeros, ...right].slice(0, 4).join(':');
}
