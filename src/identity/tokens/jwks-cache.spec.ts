import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWK } from 'jose';
import { IdentityProviderUnreachable, JwksCache } from './jwks-cache.js';

const MINUTE = 60_000;

describe('JwksCache', () => {
  let server: Server;
  let status: number;
  let keys: JWK[];
  let fetches: number;
  let clock: number;
  let cache: JwksCache;

  beforeEach(async () => {
    const { publicKey } = await generateKeyPair('ES256', { extractable: true });
    keys = [{ ...(await exportJWK(publicKey)), kid: 'a', alg: 'ES256' }];
    status = 200;
    fetches = 0;
    clock = 0;
    server = createServer((_request, response) => {
      fetches += 1;
      response.writeHead(status, { location: '/elsewhere' }).end(JSON.stringify({ keys }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    cache = new JwksCache(`http://127.0.0.1:${port}/keys`, () => clock);
  });
  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  const find = (kid: string) =>
    cache.find({ alg: 'ES256', kid }, { protected: '', payload: '', signature: '' }).then(
      () => 'found',
      (error: unknown) => (error instanceof IdentityProviderUnreachable ? 'unreachable' : 'unknown'),
    );
  const settle = () => new Promise((resolve) => setTimeout(resolve, 100));

  it('fetches once for any number of tokens', async () => {
    const found = await Promise.all(Array.from({ length: 20 }, () => find('a')));
    expect(new Set(found)).toEqual(new Set(['found']));
    expect(fetches).toBe(1);
  });

  it('serves old keys for a day while the provider fails, and no longer', async () => {
    await find('a');
    status = 500;
    for (const minutes of [11, 16, 60, 23 * 60]) {
      clock = minutes * MINUTE;
      expect(await find('a')).toBe('found');
      await settle();
    }
    clock = 24 * 60 * MINUTE + 1;
    expect(await find('a')).toBe('unreachable');
    status = 200;
    clock += MINUTE;
    expect(await find('a')).toBe('found');
  });

  it('forgets a withdrawn key: beside the requests, or before the first after a long pause', async () => {
    await find('a');
    const withdrawn = keys;
    keys = [{ ...withdrawn[0], kid: 'b' }];
    clock = 11 * MINUTE;
    await find('a');
    await settle();
    expect(await find('a')).toBe('unknown');
    keys = [{ ...withdrawn[0], kid: 'c' }];
    clock += 16 * MINUTE;
    expect(await find('b')).toBe('unknown');
    expect(await find('c')).toBe('found');
  });

  it('asks for an unknown key at most every ten seconds', async () => {
    await find('a');
    clock = 5_000;
    expect(await find('x')).toBe('unknown');
    clock = 11_000;
    expect(await Promise.all(['x', 'y', 'z'].map(find))).toEqual(['unknown', 'unknown', 'unknown']);
    expect(fetches).toBe(2);
  });

  it('is renewed for a token without a key id, at most every ten seconds', async () => {
    await find('a');
    clock = 5_000;
    expect(await cache.renew()).toBe(false);
    clock = 11_000;
    expect([await cache.renew(), await cache.renew()]).toEqual([true, false]);
    status = 500;
    clock = 22_000;
    expect([await cache.renew(), await find('a')]).toEqual([false, 'found']);
    expect(fetches).toBe(3);
  });

  it('takes no shared secret for a key, and follows no redirection', async () => {
    keys = [{ kty: 'oct', k: 'c2VjcmV0', kid: 'a', alg: 'ES256' }];
    expect(await find('a')).toBe('unknown');
    status = 302;
    clock = 11_000;
    expect(await find('x')).toBe('unreachable');
  });
});
