import type { QueryResultRow } from 'pg';
import { rows } from '../support/sql.js';

export interface PaymentFindings {
  /** Sentences; empty when the books, the payments and the audit agree. */
  faults: string[];
  calls: { total: number; repeated: number };
  money: Record<string, number>;
}

/** Compares the provider's books with the payments and with their last events, all tenants together. */
export async function findPaymentFaults(superuserUrl: string): Promise<PaymentFindings> {
  const faults: string[] = [];
  for (const { name, text } of CHECKS) {
    const found = await rows<QueryResultRow>(superuserUrl, text);
    if (found.length > 0) faults.push(`${name}: ${found.length}, such as ${JSON.stringify(found[0])}`);
  }
  const [money = {}] = await rows<Record<string, number>>(superuserUrl, MONEY);
  if (money.ledgerCaptured !== money.captured || money.ledgerRefunded !== money.refunded) {
    faults.push(`the sums differ: ${JSON.stringify(money)}`);
  }
  const [calls = { total: 0, repeated: 0 }] = await rows<{ total: number; repeated: number }>(superuserUrl, CALLS);
  return { faults, calls, money };
}

const MONEY = `
  SELECT (SELECT coalesce(sum(amount), 0)::float8 FROM simulated_provider.ledger WHERE operation = 'capture') AS "ledgerCaptured",
         (SELECT coalesce(sum(amount), 0)::float8 FROM simulated_provider.ledger WHERE operation = 'refund') AS "ledgerRefunded",
         coalesce(sum(captured), 0)::float8 AS captured, coalesce(sum(refunded), 0)::float8 AS refunded,
         coalesce(sum(captured - refunded), 0)::float8 AS "capturedMinusRefunded"
  FROM waybill.payments`;

const CALLS = `
  SELECT coalesce(sum(arrivals), 0)::int AS total, coalesce(sum(arrivals - 1), 0)::int AS repeated
  FROM simulated_provider.requests`;

/** Each finds rows that must not be there. */
const CHECKS: readonly { name: string; text: string }[] = [
  {
    name: 'keys that are left processing',
    text: `SELECT idempotency_key, resource, attempt FROM waybill.idempotency_keys WHERE status = 'processing'`,
  },
  {
    name: 'payments, refunds or attempts that are left under way',
    text: `SELECT id, status FROM waybill.payments WHERE status NOT IN ('authorized', 'declined', 'captured', 'voided', 'refunded')
           UNION ALL SELECT id, status FROM waybill.refunds WHERE status NOT IN ('succeeded', 'failed')
           UNION ALL SELECT id, status FROM waybill.payment_attempts WHERE status NOT IN ('succeeded', 'refused')`,
  },
  {
    name: 'orders that were charged twice',
    text: `SELECT metadata ->> 'waybill_order' AS "order", operation, count(*)::int AS times FROM simulated_provider.ledger
           WHERE operation <> 'refund' GROUP BY 1, 2 HAVING count(*) > 1`,
  },
  {
    name: 'keys that were booked twice',
    text: `SELECT metadata ->> 'waybill_key' AS key, count(*)::int AS times FROM simulated_provider.ledger
           GROUP BY 1 HAVING count(*) > 1`,
  },
  {
    name: 'payments that differ from the books',
    text: `SELECT p.id, p.status, p.authorized, p.captured, p.refunded, l.*
           FROM waybill.payments p LEFT JOIN (
             SELECT intent_id, sum(amount) FILTER (WHERE operation = 'authorize') AS held,
                    coalesce(sum(amount) FILTER (WHERE operation = 'capture'), 0) AS taken,
                    coalesce(sum(amount) FILTER (WHERE operation = 'refund'), 0) AS returned,
                    bool_or(operation = 'void') AS released
             FROM simulated_provider.ledger GROUP BY intent_id) l ON l.intent_id = p.provider_ref
           WHERE (p.authorized, p.captured, p.refunded, p.status = 'voided')
                 IS DISTINCT FROM (coalesce(l.held, 0), coalesce(l.taken, 0), coalesce(l.returned, 0), coalesce(l.released, false))`,
  },
  {
    name: 'holds in the books that no payment knows of',
    text: `SELECT i.id FROM simulated_provider.intents i
           WHERE NOT EXISTS (SELECT FROM waybill.payments p WHERE p.provider_ref = i.id)`,
  },
  {
    name: 'payments that differ from their last event',
    text: `SELECT p.id FROM waybill.payments p JOIN audit.events e
             ON e.tenant_id = p.tenant_id AND e.stream = 'payment/' || p.id AND e.version = p.version
           WHERE e.body::jsonb -> 'snapshot' IS DISTINCT FROM waybill.payment_snapshot(p)::jsonb`,
  },
  {
    name: 'payments whose events are not one for each version',
    text: `SELECT p.id FROM waybill.payments p
           WHERE p.version <> (SELECT count(*) FROM audit.events e WHERE e.tenant_id = p.tenant_id AND e.stream = 'payment/' || p.id)`,
  },
];
