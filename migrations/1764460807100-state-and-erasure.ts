import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Whether entities are what their last events say; and the one way in which personal data goes. */
export class StateAndErasure1764460807100 implements MigrationInterface {
  async up(db: QueryRunner): Promise<void> {
    await this.state(db);
    await this.erasure(db);
  }

  private async state(db: QueryRunner): Promise<void> {
    await db.query(`SET LOCAL ROLE waybill_audit`);
    await db.query(`
CREATE FUNCTION audit.state_sources() RETURNS TABLE (prefix text, entity_table regclass, snapshot_function text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT DISTINCT a.args[1], t.tgrelid::regclass, a.args[2]
  FROM pg_trigger t
  CROSS JOIN LATERAL (SELECT string_to_array(encode(t.tgargs, 'escape'), '\\000') AS args) a
  WHERE t.tgfoid = 'audit.record_change()'::regprocedure
$$`);
    await db.query(`COMMENT ON FUNCTION audit.state_sources IS
      'Which tables have streams: prefix, table, snapshot function, as the arguments of their triggers on audit.record_change say.'`);
    await db.query(`CREATE ${STATE_FAULTS}`);
    await db.query(`COMMENT ON FUNCTION audit.state_faults IS
      'Compares the next entities of one table with the last events of their streams, through the same snapshot function, on the members that the event has. One row: the last entity that was looked at, and the first fault. In the tenant''s context.'`);
    await db.query(`GRANT EXECUTE ON FUNCTION audit.state_sources, audit.state_faults TO waybill_sealer`);
    await db.query(`RESET ROLE`);
    await db.query(`
CREATE FUNCTION waybill.order_missing_values(p_tenant bigint, p_orders uuid[])
RETURNS TABLE (id uuid, field text, version bigint, state text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.id, r.field, r.version, CASE WHEN c.order_id IS NULL THEN 'missing' ELSE 'changed' END
  FROM (SELECT DISTINCT o.id, f.key AS field, (f.value ->> 'version')::int AS version, f.value ->> 'digest' AS digest
        FROM unnest(p_orders) AS o(id)
        JOIN audit.events e ON e.tenant_id = p_tenant AND e.stream = 'order/' || o.id
        CROSS JOIN LATERAL jsonb_each(nullif(e.body::jsonb #> '{snapshot,contacts}', 'null'::jsonb)) f) r
  LEFT JOIN waybill.order_contacts c
    ON c.tenant_id = p_tenant AND c.order_id = r.id AND c.field = r.field AND c.version = r.version
  WHERE CASE WHEN c.order_id IS NULL
        THEN NOT EXISTS (SELECT FROM audit.events x WHERE x.tenant_id = p_tenant AND x.stream = 'order/' || r.id
                           AND x.version > r.version AND x.type = 'customer.erased')
        ELSE audit.pii_digest(c.salt, c.field, c.value) <> r.digest END
$$`);
    await db.query(`COMMENT ON FUNCTION waybill.order_missing_values IS
      'Contacts whose digest stands in an event of these orders, but whose value is gone without an erasure, or is another one.'`);
    await db.query(`GRANT EXECUTE ON FUNCTION waybill.order_missing_values TO waybill_audit`);
  }

  private async erasure(db: QueryRunner): Promise<void> {
    // Only functions of waybill_audit, as which nobody logs in, delete contacts; there is one, and it leaves an event.
    await db.query(`
CREATE FUNCTION waybill.refuse_unless_audit() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_user <> 'waybill_audit' THEN
    RAISE EXCEPTION '% on %.% is refused: %', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[0] USING ERRCODE = 'WB002';
  END IF;
  RETURN NULL;
END
$$`);
    await db.query(`
DROP TRIGGER order_contacts_00_append_only ON waybill.order_contacts;
CREATE TRIGGER order_contacts_00_append_only BEFORE UPDATE OR TRUNCATE ON waybill.order_contacts
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('contacts are kept in versions: waybill.patch_order adds one');
CREATE TRIGGER order_contacts_00_erasure BEFORE DELETE ON waybill.order_contacts
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_unless_audit('contacts go only by audit.erase_customer, which leaves an event');
ALTER TABLE waybill.order_contacts ENABLE ALWAYS TRIGGER order_contacts_00_append_only,
  ENABLE ALWAYS TRIGGER order_contacts_00_erasure;
ALTER TABLE waybill.order_status_history ENABLE ALWAYS TRIGGER order_status_history_00_append_only`);

    // WHEN is evaluated as the role that runs the UPDATE, so the type of an event can't be chosen by anybody else.
    await db.query(`
DROP TRIGGER orders_50_event_update ON waybill.orders;
CREATE TRIGGER orders_50_event_update AFTER UPDATE ON waybill.orders FOR EACH ROW
  WHEN (NEW.version IS DISTINCT FROM OLD.version AND current_user <> 'waybill_audit')
  EXECUTE FUNCTION audit.record_change('order', 'waybill.order_snapshot', 'waybill.order_status_history', 'order_id');
CREATE TRIGGER orders_50_event_erasure AFTER UPDATE ON waybill.orders FOR EACH ROW
  WHEN (NEW.version IS DISTINCT FROM OLD.version AND current_user = 'waybill_audit')
  EXECUTE FUNCTION audit.record_change('order', 'waybill.order_snapshot', 'waybill.order_status_history', 'order_id', 'customer.erased');
GRANT DELETE ON waybill.order_contacts TO waybill_audit;
GRANT UPDATE (version) ON waybill.orders TO waybill_audit`);
    await db.query(`SET LOCAL ROLE waybill_audit`);
    await db.query(`
CREATE FUNCTION audit.erase_contacts(p_tenant bigint, p_orders uuid[]) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_erased int;
BEGIN
  -- One statement: contacts go only together with the version whose event tells of it.
  WITH gone AS (
    DELETE FROM waybill.order_contacts c WHERE c.tenant_id = p_tenant AND c.order_id = ANY (p_orders) RETURNING c.order_id
  )
  UPDATE waybill.orders o SET version = o.version + 1
  WHERE o.tenant_id = p_tenant AND o.id IN (SELECT g.order_id FROM gone g);
  GET DIAGNOSTICS v_erased = ROW_COUNT;
  RETURN v_erased;
END
$$`);
    await db.query(`COMMENT ON FUNCTION audit.erase_contacts IS
      'Deletes the contacts of orders in all their versions, with their salts, and appends customer.erased to each order''s stream. For waybill.erase_customer.'`);
    await db.query(`GRANT EXECUTE ON FUNCTION audit.erase_contacts TO waybill_owner`);
    await db.query(`RESET ROLE`);
    await db.query(`
CREATE FUNCTION waybill.erase_customer(p_tenant bigint, p_customer_ref text, p_limit int)
RETURNS TABLE (known boolean, erased int, remaining boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_ids uuid[];
BEGIN
  IF NOT 'admin' = ANY (string_to_array(coalesce(current_setting('waybill.roles', true), ''), ',')) THEN
    RAISE EXCEPTION 'Erasing a customer takes the role admin'
      USING ERRCODE = 'WB013', DETAIL = '{"roles": ["admin"]}', HINT = 'waybill.set_context says which roles the actor holds.';
  END IF;
  -- Locked in the order of their ids, as everybody locks who locks several.
  SELECT array_agg(l.id) INTO v_ids FROM (
    SELECT o.id FROM waybill.orders o
    WHERE o.tenant_id = p_tenant AND o.customer_ref = p_customer_ref
      AND EXISTS (SELECT FROM waybill.order_contacts c WHERE c.tenant_id = p_tenant AND c.order_id = o.id)
    ORDER BY o.id LIMIT p_limit FOR NO KEY UPDATE) l;
  erased := CASE WHEN v_ids IS NULL THEN 0 ELSE audit.erase_contacts(p_tenant, v_ids) END;
  -- Answers kept under an idempotency key show the same personal data.
  PERFORM waybill.erase_answers(p_tenant, (SELECT array_agg('order/' || i) FROM unnest(v_ids) i));
  known := EXISTS (SELECT FROM waybill.orders o WHERE o.tenant_id = p_tenant AND o.customer_ref = p_customer_ref);
  remaining := EXISTS (
    SELECT FROM waybill.orders o
    WHERE o.tenant_id = p_tenant AND o.customer_ref = p_customer_ref
      AND EXISTS (SELECT FROM waybill.order_contacts c WHERE c.tenant_id = p_tenant AND c.order_id = o.id));
  RETURN NEXT;
END
$$`);
    await db.query(`COMMENT ON FUNCTION waybill.erase_customer IS
      'Erases the personal data of at most p_limit of a customer''s orders. Says whether there is such a customer, how many orders were erased, and whether some are left.'`);
    await db.query(`GRANT EXECUTE ON FUNCTION waybill.erase_customer TO waybill_app`);
  }

  async down(db: QueryRunner): Promise<void> {
    await db.query(`SET LOCAL ROLE waybill_audit`);
    await db.query(`DROP FUNCTION audit.erase_contacts, audit.state_faults, audit.state_sources`);
    await db.query(`RESET ROLE`);
    await db.query(`
DROP FUNCTION waybill.erase_customer;
REVOKE DELETE ON waybill.order_contacts FROM waybill_audit;
REVOKE UPDATE (version) ON waybill.orders FROM waybill_audit;
DROP TRIGGER orders_50_event_erasure ON waybill.orders;
DROP TRIGGER orders_50_event_update ON waybill.orders;
CREATE TRIGGER orders_50_event_update AFTER UPDATE ON waybill.orders FOR EACH ROW
  WHEN (NEW.version IS DISTINCT FROM OLD.version)
  EXECUTE FUNCTION audit.record_change('order', 'waybill.order_snapshot', 'waybill.order_status_history', 'order_id');
DROP TRIGGER order_contacts_00_erasure ON waybill.order_contacts;
DROP TRIGGER order_contacts_00_append_only ON waybill.order_contacts;
CREATE TRIGGER order_contacts_00_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON waybill.order_contacts
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('contacts are kept in versions: waybill.patch_order adds one');
ALTER TABLE waybill.order_status_history ENABLE TRIGGER order_status_history_00_append_only;
DROP FUNCTION waybill.refuse_unless_audit, waybill.order_missing_values`);
  }
}

export const STATE_FAULTS = `FUNCTION audit.state_faults(p_tenant bigint, p_prefix text, p_after uuid, p_limit int)
RETURNS TABLE (last_id uuid, code text, stream text, version bigint, detail text)
LANGUAGE plpgsql SECURITY DEFINER STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  v_source record;
  v_entity record;
  v_values text;
  v_ids uuid[] := '{}';
BEGIN
  SELECT s.* INTO STRICT v_source FROM audit.state_sources() s WHERE s.prefix = p_prefix;
  FOR v_entity IN EXECUTE format($q$
    SELECT t.id, %s(t.tenant_id, t.id) AS state, e.version, e.body::jsonb -> 'snapshot' AS snapshot
    FROM (SELECT tenant_id, id FROM %s WHERE tenant_id = $1 AND id > $2 ORDER BY id LIMIT $3) t
    LEFT JOIN LATERAL (SELECT version, body FROM audit.events
                       WHERE tenant_id = $1 AND stream = $4 || '/' || t.id ORDER BY version DESC LIMIT 1) e ON true
    ORDER BY t.id $q$, v_source.snapshot_function, v_source.entity_table)
    USING p_tenant, p_after, p_limit, p_prefix
  LOOP
    last_id := v_entity.id;
    v_ids := v_ids || v_entity.id;
    CONTINUE WHEN code IS NOT NULL;
    stream := p_prefix || '/' || v_entity.id;
    version := v_entity.version;
    IF v_entity.snapshot IS NULL THEN
      code := 'MISSING_STREAM';
      detail := 'it is there, and no event tells of it';
    ELSE
      SELECT 'STATE_DRIFT', 'its ' || string_agg(s.key, ', ' ORDER BY s.key) || ' is not what its last event says'
      INTO code, detail FROM jsonb_each(v_entity.snapshot) s
      WHERE v_entity.state -> s.key IS DISTINCT FROM s.value HAVING count(*) > 0;
    END IF;
  END LOOP;

  -- A module with personal data brings <prefix>_missing_values; what it says explains a drift of digests.
  v_values := to_regprocedure(format('waybill.%I(bigint, uuid[])', p_prefix || '_missing_values'))::regproc;
  IF v_values IS NOT NULL AND cardinality(v_ids) > 0 THEN
    FOR v_entity IN EXECUTE format('SELECT * FROM %s($1, $2) LIMIT 1', v_values) USING p_tenant, v_ids LOOP
      stream := p_prefix || '/' || v_entity.id;
      version := v_entity.version;
      code := CASE v_entity.state WHEN 'missing' THEN 'VALUE_MISSING' ELSE 'STATE_DRIFT' END;
      detail := format('the value of %s is %s, and no erasure tells why', v_entity.field, v_entity.state);
    END LOOP;
  END IF;

  -- A subquery rather than NOT EXISTS: for LIMIT 1 the planner compares every event with every entity.
  IF code IS NULL AND p_after = '00000000-0000-0000-0000-000000000000' THEN
    EXECUTE format($q$
      SELECT e.stream, 'STATE_DRIFT', 'its events are there, and it is gone' FROM audit.events e
      WHERE e.tenant_id = $1 AND e.stream > $2 || '/' AND e.stream < $2 || '0' AND e.version = 1
        AND (SELECT t.id FROM %s t WHERE t.tenant_id = $1 AND t.id = split_part(e.stream, '/', 2)::uuid) IS NULL
      ORDER BY e.stream LIMIT 1 $q$, v_source.entity_table)
    INTO stream, code, detail USING p_tenant, p_prefix;
  END IF;
  RETURN NEXT;
END
$$`;
