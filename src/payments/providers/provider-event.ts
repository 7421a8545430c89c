import { isText } from '../../validation/index.js';
import type { ProviderEvent, ProviderFact } from './payment-provider.js';

/** What a provider's signed event has in the places where an event has something: anything at all. */
export interface RawEvent {
  id: unknown;
  type: unknown;
  metadata: unknown;
  /** Null for events that mean nothing to us. */
  fact: RawFact | null;
}

export interface RawFact {
  subject: unknown;
  fact: unknown;
  /** The provider's name of what the fact is about: the payment, the refund, the dispute. */
  reference: unknown;
  /** The provider's name of the payment, where that is another. */
  payment?: unknown;
  /** Minor units. */
  amount: unknown;
  code: unknown;
  cause?: unknown;
}

const FACTS: Readonly<Record<string, readonly string[]>> = {
  payment: ['authorized', 'declined', 'captured', 'voided'],
  refund: ['succeeded', 'failed'],
};
/** Facts that say nothing of an amount. */
const WITHOUT_AMOUNT: ReadonlySet<string> = new Set(['declined', 'voided', 'failed']);
const LONGEST_NAME = 255;
const LONGEST_CODE = 100;

/**
 * An event as far as it can be read. What is signed comes from the provider, and refusing it would only have it sent again: an id or a
 * type that can't be kept gets another name, and a fact that makes no sense becomes a problem for a person.
 *
 * @param digest SHA-256 of the body, in hexadecimal
 */
export function readEvent({ id, type, metadata, fact }: RawEvent, digest: string): ProviderEvent {
  const named = {
    id: isName(id) ? id : `sha256:${digest}`,
    type: isName(type) ? type : 'unreadable',
    ...ownerOf(metadata),
  };
  if (fact === null) return { ...named, paymentRef: null, fact: null, problem: null };
  const paymentRef = nameOf(fact.payment ?? (fact.subject === 'payment' ? fact.reference : null));
  const problem = problemOf(fact);
  if (problem !== null) return { ...named, paymentRef, fact: null, problem };
  const amount = WITHOUT_AMOUNT.has(fact.fact as string) ? null : fact.amount;
  return {
    ...named,
    paymentRef,
    fact: { ...fact, amount: amount ?? null, code: codeOf(fact.code) } as ProviderFact,
    problem: null,
  };
}

function problemOf({ subject, fact, reference, amount, cause }: RawFact): string | null {
  const facts = typeof subject === 'string' && Object.hasOwn(FACTS, subject) ? FACTS[subject] : undefined;
  if (!facts || typeof fact !== 'string' || !facts.includes(fact))
    return 'The event says what no payment and no refund can be.';
  if (!isName(reference)) return 'The event has no name for what it is about, or one that cannot be kept.';
  if (cause !== undefined && cause !== 'provider' && cause !== 'dispute')
    return 'The event has a cause that is not known.';
  const isAmount = amount === null || amount === undefined || (Number.isSafeInteger(amount) && (amount as number) >= 1);
  if (WITHOUT_AMOUNT.has(fact) || isAmount) return null;
  return `The event says ${fact}, of an amount that is none: ${shown(amount)}.`;
}

/** The tenant and the key in an object's metadata, as far as they are ours. */
function ownerOf(metadata: unknown): { tenantId: number | null; key: string | null } {
  const { waybill_tenant: tenant, waybill_key: key } = membersOf(metadata);
  const tenantId = typeof tenant === 'string' && /^[1-9]\d{0,15}$/.test(tenant) ? Number(tenant) : null;
  return { tenantId, key: typeof key === 'string' && /^[0-9a-f]{64}$/.test(key) ? key : null };
}

/** The members of an object; none of whatever else it is. */
export function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function isName(value: unknown): value is string {
  return isText(value, 1, LONGEST_NAME);
}

function nameOf(value: unknown): string | null {
  return isName(value) ? value : null;
}

function codeOf(value: unknown): string | null {
  return isText(value, 1, LONGEST_NAME) ? Array.from(value).slice(0, LONGEST_CODE).join('') : null;
}

/** Numbers are shown, and of all else only what it is: a text may be anything. */
function shown(value: unknown): string {
  return typeof value === 'number' ? String(value) : `a ${Array.isArray(value) ? 'list' : typeof value}`;
}
