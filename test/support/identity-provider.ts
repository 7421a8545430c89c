import { createSign, generateKeyPairSync } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose';

interface SigningKey {
  kid: string;
  alg: string;
  privateKey: CryptoKey;
  publicKey: CryptoKey;
  publicJwk: JWK;
}

export interface TokenOptions {
  claims?: JWTPayload;
  /** Claims to leave out. */
  without?: readonly string[];
  header?: Record<string, unknown>;
  /** Signs with a key that the provider doesn't publish, or no longer. */
  key?: SigningKey;
}

/** An identity provider: a real HTTP server that publishes its keys, and signs tokens on demand. */
export class IdentityProvider {
  readonly issuer = 'https://id.example.test/';
  readonly audience = 'waybill';
  /** How often the keys were fetched. */
  fetches = 0;
  /** What it answers instead of its keys. */
  outage: number | null = null;
  keys: SigningKey[] = [];
  private server: Server | undefined;
  private port = 0;

  static async start(): Promise<IdentityProvider> {
    const provider = new IdentityProvider();
    provider.keys = [await makeKey('first')];
    await provider.listen();
    return provider;
  }

  get jwksUri(): string {
    return `http://127.0.0.1:${this.port}/keys`;
  }

  /** Settings of a service that trusts this provider. */
  get env(): Record<string, string> {
    return { JWT_ISSUER: this.issuer, JWT_AUDIENCE: this.audience, JWT_JWKS_URI: this.jwksUri };
  }

  /** From now on this key alone is published and signs. */
  async rotate(kid: string, alg = 'RS256'): Promise<SigningKey> {
    const key = await makeKey(kid, alg);
    this.keys = [key];
    return key;
  }

  /** A good token for tenant `demo`, unless told otherwise; times are seconds since 1970. */
  async token({ claims = {}, without = [], header = {}, key = this.keys[0] }: TokenOptions = {}): Promise<string> {
    if (!key) throw new Error('The provider has no key');
    const now = Math.floor(Date.now() / 1000);
    const payload: JWTPayload = {
      iss: this.issuer,
      aud: this.audience,
      sub: 'ada',
      tenant: 'demo',
      roles: ['operator'],
      iat: now,
      exp: now + 300,
      ...claims,
    };
    for (const name of without) delete payload[name];
    return new SignJWT(payload).setProtectedHeader({ alg: key.alg, kid: key.kid, ...header }).sign(key.privateKey);
  }

  listen(): Promise<void> {
    const server = createServer((_request, response) => {
      this.fetches += 1;
      if (this.outage !== null) {
        response.writeHead(this.outage).end();
        return;
      }
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ keys: this.keys.map(({ publicJwk }) => publicJwk) }));
    });
    this.server = server;
    return new Promise((resolve) => {
      server.listen(this.port, '127.0.0.1', () => {
        this.port = (server.address() as AddressInfo).port;
        resolve();
      });
    });
  }

  close(): Promise<void> {
    this.server?.closeAllConnections();
    return new Promise((resolve) => (this.server ? this.server.close(() => resolve()) : resolve()));
  }
}

export async function makeKey(kid: string, alg = 'RS256'): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
  return { kid, alg, privateKey, publicKey, publicJwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } };
}

/** RSA of 1024 bits, with which jose neither signs nor verifies. */
export async function makeWeakKey(kid: string): Promise<SigningKey & { sign(header: object, claims: object): string }> {
  const key = await makeKey(kid);
  const weak = generateKeyPairSync('rsa', { modulusLength: 1024 });
  const publicJwk: JWK = { ...(weak.publicKey.export({ format: 'jwk' }) as JWK), kid, alg: 'RS256', use: 'sig' };
  const sign = (header: object, claims: object): string => {
    const text = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
    return `${text}.${createSign('sha256').update(text).sign(weak.privateKey).toString('base64url')}`;
  };
  return { ...key, publicJwk, sign };
}
