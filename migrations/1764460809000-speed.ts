import type { MigrationInterface, QueryRunner } from 'typeorm';

/** A part of a function's body, and what stands there instead. */
interface Rewrite {
  name: string;
  from: string;
  to: string;
}

const INSERT_FIRST = `EXECUTE format('INSERT INTO %s (tenant_id, %I, seq, to_status, changed_by, changed_at, request_id)
                  VALUES ($1, $2, 1, $3, $4, $5, $6)', TG_ARGV[0], TG_ARGV[1])
  USING NEW.tenant_id, NEW.id, NEW.status, current_setting('waybill.actor')::uuid, NEW.updated_at,
        nullif(current_setting('waybill.request_id', true), '');`;

const INSERT_NEXT = `EXECUTE format('INSERT INTO %s (tenant_id, %I, seq, from_status, to_status, changed_by, changed_at, reason, request_id)
                  SELECT $1, $2, max(h.seq) + 1, $3, $4, $5, $6, $7, $8 FROM %1$s h WHERE h.tenant_id = $1 AND h.%2$I = $2',
                 TG_ARGV[1], TG_ARGV[2])
  USING NEW.tenant_id, NEW.id, OLD.status, NEW.status, current_setting('waybill.actor')::uuid, NEW.updated_at, v_reason,
        nullif(current_setting('waybill.request_id', true), '');`;

const SNAPSHOT = `EXECUTE 'SELECT ' || TG_ARGV[1] || '($1, $2)' INTO STRICT v_snapshot USING NEW.tenant_id, NEW.id;`;

const REASON = `EXECUTE format('SELECT h.reason FROM %s h WHERE h.tenant_id = $1 AND h.%I = $2 ORDER BY h.seq DESC LIMIT 1',
                     TG_ARGV[2], TG_ARGV[3])
      INTO STRICT v_reason USING NEW.tenant_id, NEW.id;`;

/** The trigger functions stay generic; where the table is that of orders they take a statement that names it. */
const STATIC: readonly Rewrite[] = [
  {
    name: 'waybill.begin_history',
    from: INSERT_FIRST,
    to: `-- A statement that names its table is planned once a session; EXECUTE plans at every call.
  IF TG_ARGV[0] = 'waybill.order_status_history' THEN
    INSERT INTO waybill.order_status_history (tenant_id, order_id, seq, to_status, changed_by, changed_at, request_id)
    VALUES (NEW.tenant_id, NEW.id, 1, NEW.status, current_setting('waybill.actor')::uuid, NEW.updated_at,
            nullif(current_setting('waybill.request_id', true), ''));
    RETURN NULL;
  END IF;
  ${INSERT_FIRST}`,
  },
  {
    name: 'waybill.guard_update',
    from: INSERT_NEXT,
    to: `IF TG_ARGV[1] = 'waybill.order_status_history' THEN
    INSERT INTO waybill.order_status_history (tenant_id, order_id, seq, from_status, to_status, changed_by, changed_at, reason, request_id)
    SELECT NEW.tenant_id, NEW.id, max(h.seq) + 1, OLD.status, NEW.status, current_setting('waybill.actor')::uuid,
           NEW.updated_at, v_reason, nullif(current_setting('waybill.request_id', true), '')
    FROM waybill.order_status_history h WHERE h.tenant_id = NEW.tenant_id AND h.order_id = NEW.id;
    RETURN NEW;
  END IF;
  ${INSERT_NEXT}`,
  },
];

const STATIC_AUDIT: readonly Rewrite[] = [
  {
    name: 'audit.record_change',
    from: SNAPSHOT,
    to: `IF TG_ARGV[1] = 'waybill.order_snapshot' THEN
    v_snapshot := waybill.order_snapshot(NEW.tenant_id, NEW.id);
  ELSE
    ${SNAPSHOT}
  END IF;`,
  },
  {
    name: 'audit.record_change',
    from: REASON,
    to: `IF TG_ARGV[2] = 'waybill.order_status_history' THEN
        SELECT h.reason INTO STRICT v_reason FROM waybill.order_status_history h
        WHERE h.tenant_id = NEW.tenant_id AND h.order_id = NEW.id ORDER BY h.seq DESC LIMIT 1;
      ELSE
        ${REASON}
      END IF;`,
  },
];

const ADDS_UP: readonly Rewrite[] = [
  {
    name: 'waybill.order_adds_up',
    from: `
BEGIN
  PERFORM waybill.check_order_amounts(NEW.tenant_id, NEW.id);`,
    to: `
DECLARE
  v_lines record;
BEGIN
  SELECT sum(l.quantity * l.unit_price) AS subtotal, sum(l.discount) AS discount, sum(l.tax) AS tax, sum(l.total) AS total
  INTO v_lines FROM waybill.order_lines l WHERE l.tenant_id = NEW.tenant_id AND l.order_id = NEW.id;
  -- The row is at hand. Only when it doesn't add up is it read again: a later trigger may have changed it.
  IF v_lines.total = NEW.total - NEW.shipping AND v_lines.subtotal = NEW.subtotal AND v_lines.discount = NEW.discount
     AND v_lines.tax = NEW.tax THEN
    RETURN NULL;
  END IF;
  PERFORM waybill.check_order_amounts(NEW.tenant_id, NEW.id);`,
  },
];

/**
 * A statement may travel in the same packet as the claim of its key, before anybody knows what the claim says. Where the
 * key is not for this request, the transaction must write nothing and wait for no lock: the flag stands for that.
 */
const CLAIMS: readonly Rewrite[] = [
  ...['in_flight', 'reused'].map((outcome) => ({
    name: 'waybill.claim_key',
    from: `outcome := '${outcome}';`,
    to: `outcome := waybill.refuse_writes('${outcome}');`,
  })),
  {
    name: 'waybill.claim_key',
    from: `outcome := CASE WHEN v_key.response_body IS NULL THEN 'erased' ELSE 'replay' END;`,
    to: `outcome := waybill.refuse_writes(CASE WHEN v_key.response_body IS NULL THEN 'erased' ELSE 'replay' END);`,
  },
  {
    name: 'waybill.require_context',
    from: `
  RETURN NULL;`,
    to: `
  PERFORM waybill.require_key();
  RETURN NULL;`,
  },
  {
    name: 'waybill.lock_order',
    from: `
BEGIN
  SELECT`,
    to: `
BEGIN
  PERFORM waybill.require_key();
  SELECT`,
  },
];

const REFUSING = `
CREATE FUNCTION waybill.refuse_writes(p_outcome text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN set_config('waybill.key_refused', p_outcome, true);
END
$$;
COMMENT ON FUNCTION waybill.refuse_writes IS
  'Makes this transaction refuse every later write, since its idempotency key is not its to use. Returns its argument.';
CREATE FUNCTION waybill.require_key() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF nullif(current_setting('waybill.key_refused', true), '') IS NOT NULL THEN
    RAISE EXCEPTION 'this transaction''s idempotency key is not its to use: %', current_setting('waybill.key_refused')
      USING ERRCODE = 'WB021', HINT = 'Roll back, and answer by what waybill.claim_key said.';
  END IF;
END
$$;
COMMENT ON FUNCTION waybill.require_key IS 'Refuses where waybill.claim_key has refused the key of this transaction.';
GRANT EXECUTE ON FUNCTION waybill.require_key TO waybill_app, waybill_sealer, waybill_audit`;

/** The write path with less work in PostgreSQL and the same rules. */
export class Speed1764460809000 implements MigrationInterface {
  async up(db: QueryRunner): Promise<void> {
    await db.query(REFUSING);
    for (const rewrite of [...STATIC, ...ADDS_UP, ...CLAIMS]) await apply(db, rewrite);
    await db.query(`SET LOCAL ROLE waybill_audit`);
    for (const rewrite of STATIC_AUDIT) await apply(db, rewrite);
    await db.query(`RESET ROLE`);
  }

  async down(db: QueryRunner): Promise<void> {
    const back = ({ name, from, to }: Rewrite): Rewrite => ({ name, from: to, to: from });
    for (const rewrite of [...STATIC, ...ADDS_UP, ...CLAIMS]) await apply(db, back(rewrite));
    await db.query(`DROP FUNCTION waybill.require_key, waybill.refuse_writes`);
    await db.query(`SET LOCAL ROLE waybill_audit`);
    for (const rewrite of STATIC_AUDIT) await apply(db, back(rewrite));
    await db.query(`RESET ROLE`);
  }
}

/** Changes a part of a function and leaves the rest as whatever migration wrote it last. */
async function apply(db: QueryRunner, { name, from, to }: Rewrite): Promise<void> {
  const [{ definition }] = (await db.query(`SELECT pg_get_functiondef($1::regproc) AS definition`, [name])) as [
    { definition: string },
  ];
  if (!definition.includes(from)) throw new Error(`${name} is not the function that this migration knows`);
  await db.query(definition.replaceAll(from, () => to));
}
