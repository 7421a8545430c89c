import { orderTotals } from '../src/orders/order-totals.js';
import { customers, markets, products, reasons, type Market } from './invented-data.js';
import type { RecordedOrder, RecordedStep } from './recorded-order.js';

/**
 * Invents orders that look like those of a small shop: several currencies, tax rates, scripts, discounts and states.
 * Order n depends on the seed and n only, so that a longer run begins with the orders of a shorter one and finds them
 * there.
 */
export function generateOrders(count: number, seed: number): RecordedOrder[] {
  return Array.from({ length: count }, (_, at) => generateOrder(at + 1, seed));
}

function generateOrder(number: number, seed: number): RecordedOrder {
  const random = randomNumbers(seed * 1_000_003 + number);
  const market = pick(markets, random);
  const [name, city, street, postalCode, region] = pick(customers[market.country] ?? [], random);
  const lines = Array.from({ length: 1 + Math.floor(random() ** 2 * 6) }, () => generateLine(market, random));
  const shipping = random() < 0.3 ? 0 : amount(market, 3 + random() * 9);
  const { total } = orderTotals(lines, shipping);
  return {
    place: `order ${number}`,
    repetition: 0,
    order: {
      channel: pick(['web', 'web', 'web', 'store', 'phone', 'marketplace'], random),
      externalRef: `demo-${seed}-${String(number).padStart(6, '0')}`,
      currency: market.currency,
      customer: {
        ref: `c-${String(1 + Math.floor(random() ** 2 * 400)).padStart(4, '0')}`,
        name,
        email: `customer-${number}@example.test`,
      },
      shippingAddress: {
        line1: `${street} ${1 + Math.floor(random() * 180)}`,
        city,
        country: market.country,
        ...(postalCode === undefined ? {} : { postalCode }),
        ...(region === undefined ? {} : { region }),
      },
      lines,
      shipping,
      expectedTotal: total,
      metadata: { campaign: pick(['none', 'spring', 'newsletter', 'café-tour'], random), gift: random() < 0.1 },
    },
    steps: generateSteps(random),
  };
}

function generateLine(market: Market, random: () => number) {
  const [sku, name, price, reduced] = pick(products, random);
  const quantity = 1 + Math.floor(random() ** 3 * 12);
  const unitPrice = amount(market, price);
  const discount = random() < 0.2 ? Math.floor(quantity * unitPrice * pick([0.05, 0.1, 0.25], random)) : 0;
  return { sku, name, quantity, unitPrice, discount, taxRatePpm: reduced ? market.reducedPpm : market.standardPpm };
}

/** Most orders arrive; some are on their way, some new, and one in ten is canceled. */
function generateSteps(random: () => number): RecordedStep[] {
  const luck = random();
  const canceled = { to: 'canceled', reason: pick(reasons, random) };
  if (luck < 0.06) return [];
  if (luck < 0.12) return [canceled];
  if (luck < 0.16) return [{ to: 'confirmed' }, canceled];
  if (luck < 0.26) return [{ to: 'confirmed' }];
  if (luck < 0.4) return [{ to: 'confirmed' }, { to: 'shipped' }];
  return [{ to: 'confirmed' }, { to: 'shipped' }, { to: 'delivered' }];
}

/** A price in euros as minor units of the market's currency. */
function amount(market: Market, euros: number): number {
  return Math.round(euros * market.minorUnitsPerEuro);
}

function pick<T>(list: readonly T[], random: () => number): T {
  const chosen = list[Math.floor(random() * list.length)];
  if (chosen === undefined) throw new Error('an empty list has nothing to pick from');
  return chosen;
}

/** Mulberry32: small, seeded, and good enough to invent a shop. */
function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
