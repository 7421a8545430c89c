import { join } from 'node:path';
import type { Invariant } from './fault-checker.js';

/** A bug, put in on purpose, that the checker must find: what can't find a fault proves nothing by finding none. */
export interface Plant {
  name: string;
  /** One of these at least must be reported as broken. */
  breaks: readonly Invariant[];
  /** Put into the database as a superuser. */
  sql?: string;
  /** A module that the services import before they start, so that nothing in the product knows of it. */
  imports?: string;
}

/** A trigger that changes rows behind the service's back. */
function meddling(table: string, when: string, statement: string): string {
  return `
    CREATE FUNCTION public.meddle() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    BEGIN ${statement} RETURN NEW; END $$;
    CREATE TRIGGER zz_meddle ${when} ON ${table} FOR EACH ROW EXECUTE FUNCTION public.meddle();`;
}

export const PLANTS: readonly Plant[] = [
  {
    name: 'keys are forgotten at once',
    breaks: ['one order a key'],
    sql: meddling(
      'waybill.idempotency_keys',
      'BEFORE INSERT OR UPDATE',
      `IF NEW.status <> 'processing' THEN NEW.expires_at := clock_timestamp(); END IF;`,
    ),
  },
  {
    name: 'stored answers are altered',
    breaks: ['one answer a key'],
    sql: meddling(
      'waybill.idempotency_keys',
      'BEFORE INSERT OR UPDATE',
      `NEW.response_body := NEW.response_body || ' '::bytea;`,
    ),
  },
  {
    name: 'every tenth write is answered and rolled back',
    breaks: ['one order a key', 'history as answered', 'events as answered', 'one answer a key'],
    imports: join(import.meta.dirname, 'plant-lost-writes.mjs'),
  },
  {
    name: 'the answer leaves although the key stays in progress',
    breaks: ['nothing is stuck', 'every request is settled'],
    sql: meddling(
      'waybill.idempotency_keys',
      'BEFORE INSERT OR UPDATE',
      `IF random() < 0.3 THEN
         NEW.status := 'processing'; NEW.response_status := NULL; NEW.response_headers := NULL;
         NEW.response_body := NULL; NEW.expires_at := NULL; NEW.lease_token := gen_random_uuid();
         NEW.lease_until := 'infinity';
       END IF;`,
    ),
  },
  {
    name: 'history skips a number',
    breaks: ['history as answered'],
    sql: meddling(
      'waybill.order_status_history',
      'BEFORE INSERT',
      'IF NEW.seq > 1 THEN NEW.seq := NEW.seq + 1; END IF;',
    ),
  },
  {
    name: 'changes leave no event',
    breaks: ['events as answered'],
    sql: 'ALTER TABLE waybill.orders DISABLE TRIGGER orders_50_record_update;',
  },
  {
    name: 'an order costs a cent more than was asked',
    breaks: ['sums add up'],
    sql: meddling('waybill.orders', 'BEFORE INSERT', 'NEW.shipping := NEW.shipping + 1; NEW.total := NEW.total + 1;'),
  },
  {
    name: 'the provider takes twice as much',
    breaks: ['charged once'],
    sql: meddling('simulated_provider.ledger', 'BEFORE INSERT', 'NEW.amount := NEW.amount * 2;'),
  },
  {
    name: 'events hang on nothing',
    breaks: ['chain verifies'],
    sql: meddling('audit.events', 'BEFORE INSERT', `NEW.prev_hash := sha256('nothing'::bytea);`),
  },
  {
    name: 'some events never come to the sealer',
    breaks: ['each event in the log once'],
    sql: meddling('audit.queue', 'BEFORE INSERT', 'IF random() < 0.3 THEN RETURN NULL; END IF;'),
  },
  {
    name: 'another checkpoint is published than the one that was signed',
    breaks: ['what is published is kept'],
    imports: join(import.meta.dirname, 'plant-garbled-checkpoints.mjs'),
  },
  {
    name: 'leaves are signed by nobody',
    breaks: ['log verifies'],
    sql: meddling('audit.leaves', 'BEFORE INSERT', `NEW.signature := sha512('nobody'::bytea);`),
  },
  {
    name: 'a transaction is left open',
    breaks: ['nothing is stuck'],
    imports: join(import.meta.dirname, 'plant-open-transaction.mjs'),
  },
];
