import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * The state check of a verification looks each order's events and contacts up. Joined to the array of ids, whose length the
 * planner takes for a hundred rows or more, it read both tables from end to end for every five hundred orders. And only the
 * entities that differ from their last event leave SQL.
 */
export class StateCheckLookups1764460809000 implements MigrationInterface {
  async up(db: QueryRunner): Promise<void> {
    await db.query(`
CREATE OR REPLACE FUNCTION waybill.order_missing_values(p_tenant bigint, p_orders uuid[])
RETURNS TABLE (id uuid, field text, version bigint, state text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  -- OFFSET 0 keeps each subquery apart, so that it is run for each row, by its index.
  SELECT r.id, r.field, r.version, CASE WHEN c.salt IS NULL THEN 'missing' ELSE 'changed' END
  FROM (SELECT DISTINCT o.id, f.key AS field, (f.value ->> 'version')::int AS version, f.value ->> 'digest' AS digest
        FROM unnest(p_orders) AS o(id)
        CROSS JOIN LATERAL (SELECT x.body FROM audit.events x
                            WHERE x.tenant_id = p_tenant AND x.stream = 'order/' || o.id OFFSET 0) e
        CROSS JOIN LATERAL jsonb_each(nullif(e.body::jsonb #> '{snapshot,contacts}', 'null'::jsonb)) f) r
  LEFT JOIN LATERAL (SELECT x.salt, x.value FROM waybill.order_contacts x
                     WHERE x.tenant_id = p_tenant AND x.order_id = r.id AND x.field = r.field AND x.version = r.version
                     OFFSET 0) c ON true
  WHERE CASE WHEN c.salt IS NULL
        THEN NOT EXISTS (SELECT FROM audit.events x WHERE x.tenant_id = p_tenant AND x.stream = 'order/' || r.id
                           AND x.version > r.version AND x.type = 'customer.erased')
        ELSE audit.pii_digest(c.salt, r.field, c.value) <> r.digest END
$$`);
    await db.query(`SET LOCAL ROLE waybill_audit`);
    await db.query(`
CREATE OR REPLACE FUNCTION audit.state_faults(p_tenant bigint, p_prefix text, p_after uuid, p_limit int)
RETURNS TABLE (last_id uuid, code text, stream text, version bigint, detail text)
LANGUAGE plpgsql SECURITY DEFINER STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  v_source record;
  v_entity record;
  v_values text;
  v_ids uuid[];
BEGIN
  SELECT s.* INTO STRICT v_source FROM audit.state_sources() s WHERE s.prefix = p_prefix;
  EXECUTE format('SELECT array_agg(t.id ORDER BY t.id) FROM (SELECT id FROM %s WHERE tenant_id = $1 AND id > $2 ORDER BY id LIMIT $3) t',
    v_source.entity_table) INTO v_ids USING p_tenant, p_after, p_limit;
  last_id := v_ids[cardinality(v_ids)];

  FOR v_entity IN EXECUTE format($q$
    SELECT * FROM (
      SELECT t.id, %s($1, t.id) AS state, e.version, e.body::jsonb -> 'snapshot' AS snapshot
      FROM unnest($2) WITH ORDINALITY AS t(id, place)
      LEFT JOIN LATERAL (SELECT version, body FROM audit.events
                         WHERE tenant_id = $1 AND stream = $3 || '/' || t.id ORDER BY version DESC LIMIT 1) e ON true
      ORDER BY t.place OFFSET 0) c
    WHERE c.state IS DISTINCT FROM c.snapshot $q$, v_source.snapshot_function)
    USING p_tenant, v_ids, p_prefix
  LOOP
    IF v_entity.snapshot IS NULL THEN
      code := 'MISSING_STREAM';
      detail := 'it is there, and no event tells of it';
    ELSE
      -- An event of an earlier version may lack members.
      SELECT 'STATE_DRIFT', 'its ' || string_agg(s.key, ', ' ORDER BY s.key) || ' is not what its last event says'
      INTO code, detail FROM jsonb_each(v_entity.snapshot) s
      WHERE v_entity.state -> s.key IS DISTINCT FROM s.value HAVING count(*) > 0;
    END IF;
    IF code IS NOT NULL THEN
      stream := p_prefix || '/' || v_entity.id;
      version := v_entity.version;
      EXIT;
    END IF;
  END LOOP;

  -- A module with personal data brings <prefix>_missing_values; what it says explains a drift of digests.
  v_values := to_regprocedure(format('waybill.%I(bigint, uuid[])', p_prefix || '_missing_values'))::regproc;
  IF v_values IS NOT NULL AND last_id IS NOT NULL THEN
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
$$`);
    await db.query(`RESET ROLE`);
  }

  /** Both functions find what they found before, only sooner: they stay. */
  down(): Promise<void> {
    return Promise.resolve();
  }
}
