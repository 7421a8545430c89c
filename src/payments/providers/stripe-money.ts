/**
 * Where Stripe's smallest unit isn't ISO 4217's minor unit: it counts these in hundredths although they have none any
 * more, or in whole units although they have hundredths (docs.stripe.com/currencies, "special cases" and "zero-decimal").
 */
const HUNDREDTHS = new Set(['ISK', 'UGX']);
const WHOLE = new Set(['MGA']);

/** An amount of minor units as Stripe counts it; null when it can't be expressed there. */
export function toStripeAmount(amount: number, currency: string): number | null {
  if (HUNDREDTHS.has(currency)) return amount * 100;
  if (!WHOLE.has(currency)) return amount;
  return amount % 100 === 0 ? amount / 100 : null;
}

/** The same back, for amounts that Stripe reports. */
export function fromStripeAmount(amount: number, currency: string): number {
  const code = currency.toUpperCase();
  if (HUNDREDTHS.has(code)) return amount / 100;
  return WHOLE.has(code) ? amount * 100 : amount;
}
