import {
  type CryptoKey,
  decodeProtectedHeader,
  errors,
  type JWTVerifyOptions,
  type JWTVerifyResult,
  jwtVerify,
} from 'jose';
import { Unauthenticated } from '../identity.errors.js';
import { JwksCache } from './jwks-cache.js';
import { readClaims, type TokenClaims } from './token-claims.js';

export interface JwtSettings {
  issuer: string;
  audience: string;
  jwksUri: string;
  tenantClaim: string;
  rolesClaim: string;
}

export const MAX_TOKEN_LENGTH = 8_192;
/** Clocks of the provider and of this machine may differ by so many seconds. */
const CLOCK_TOLERANCE = 30;
/** Asymmetric ones only: whoever can verify must not be able to sign. */
const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];

/** What `typ` may say, in any case and with or without `application/`: of tokens for other purposes it says another word. */
const TYPES = new Set(['jwt', 'at+jwt']);

/** Verifies tokens of the one identity provider that the settings name. */
export class TokenVerifier {
  private readonly keys: JwksCache;

  constructor(private readonly settings: JwtSettings) {
    this.keys = new JwksCache(settings.jwksUri);
  }

  /**
   * @throws Unauthenticated for every token that isn't good here
   * @throws IdentityProviderUnreachable when that can't be known now
   */
  async verify(token: string): Promise<TokenClaims> {
    if (token.length > MAX_TOKEN_LENGTH) {
      throw new Unauthenticated(`The token is longer than ${MAX_TOKEN_LENGTH} characters.`);
    }
    const { issuer, audience, tenantClaim, rolesClaim } = this.settings;
    const payload = await this.payloadOf(token, issuer, audience);
    const claims = readClaims(payload, { tenant: tenantClaim, roles: rolesClaim });
    if (!claims) throw new Unauthenticated('The token names no subject or no tenant.');
    return claims;
  }

  private async payloadOf(token: string, issuer: string, audience: string): Promise<Record<string, unknown>> {
    try {
      const { payload, protectedHeader } = await this.verified(token, {
        issuer,
        audience,
        algorithms: ALGORITHMS,
        clockTolerance: CLOCK_TOLERANCE,
        requiredClaims: ['exp', 'sub'],
      });
      if (!isAccessToken(protectedHeader.typ)) throw new Unauthenticated('The token is of another type than JWT.');
      return payload;
    } catch (error) {
      if (!(error instanceof errors.JOSEError)) throw error;
      throw new Unauthenticated(reasonOf(error));
    }
  }

  /** A token that names no key may be signed by one that is newer than those at hand. */
  private async verified(token: string, options: JWTVerifyOptions): Promise<JWTVerifyResult> {
    try {
      return await this.verifiedByKnown(token, options);
    } catch (error) {
      const isUnsigned = error instanceof errors.JWSSignatureVerificationFailed;
      if (!isUnsigned || decodeProtectedHeader(token).kid !== undefined || !(await this.keys.renew())) throw error;
      return this.verifiedByKnown(token, options);
    }
  }

  /** A token that names no key may be signed by any of those that fit its algorithm. */
  private async verifiedByKnown(token: string, options: JWTVerifyOptions): Promise<JWTVerifyResult> {
    try {
      return await jwtVerify(token, (header, input) => this.keys.find(header, input), options);
    } catch (error) {
      if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
      return verifiedByOneOf(error, token, options);
    }
  }
}

/** @param keys those that fit, at most as many as the provider publishes */
async function verifiedByOneOf(
  keys: AsyncIterable<CryptoKey>,
  token: string,
  options: JWTVerifyOptions,
): Promise<JWTVerifyResult> {
  for await (const key of keys) {
    try {
      return await jwtVerify(token, key, options);
    } catch (error) {
      if (!(error instanceof errors.JWSSignatureVerificationFailed)) throw error;
    }
  }
  throw new errors.JWSSignatureVerificationFailed();
}

/** Absent, a type says nothing. */
function isAccessToken(type: unknown): boolean {
  if (type === undefined) return true;
  return typeof type === 'string' && TYPES.has(type.toLowerCase().replace(/^application\//, ''));
}

/** What the bearer can do something about is said; anything else is just not good here. */
function reasonOf(error: errors.JOSEError): string {
  if (error instanceof errors.JWTExpired) return 'The token has expired. Get a new one.';
  if (error instanceof errors.JWTClaimValidationFailed && error.claim === 'nbf') return 'The token is not valid yet.';
  return 'The token is not accepted here.';
}
