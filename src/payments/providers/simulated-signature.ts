import { createHmac, timingSafeEqual } from 'node:crypto';

/** How far a signature's time may be off, in seconds. */
const TOLERANCE = 300;

/**
 * The signature of a simulated event, in the form that Stripe made common: `t=<seconds>,v1=<hex>`, where the hex is
 * HMAC-SHA256 over the seconds, a dot and the body.
 */
export function signEvent(secret: string, body: string | Buffer, seconds = Math.floor(Date.now() / 1000)): string {
  return `t=${seconds},v1=${hmac(secret, seconds, body).toString('hex')}`;
}

/** Whether a signature is right and fresh. */
export function isSignedBy(secret: string, body: Buffer, signature: string): boolean {
  const parts = freshParts(signature);
  return parts !== null && timingSafeEqual(hmac(secret, parts.seconds, body), Buffer.from(parts.hex, 'hex'));
}

/** Whether a text has the form of a signature, and its time is near. */
export function isFreshSignature(signature: string): boolean {
  return freshParts(signature) !== null;
}

function freshParts(signature: string): { seconds: number; hex: string } | null {
  const [, seconds, hex] = /^t=(\d{1,12}),v1=([0-9a-f]{64})$/.exec(signature) ?? [];
  if (!seconds || !hex || Math.abs(Date.now() / 1000 - Number(seconds)) > TOLERANCE) return null;
  return { seconds: Number(seconds), hex };
}

function hmac(secret: string, seconds: number, body: string | Buffer): Buffer {
  return createHmac('sha256', secret).update(`${seconds}.`).update(body).digest();
}
