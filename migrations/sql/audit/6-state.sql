SET LOCAL ROLE waybill_audit;

CREATE FUNCTION audit.state_sources() RETURNS TABLE (prefix text, entity_table regclass)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT DISTINCT substr(p.proname, length('record_') + 1), t.tgrelid::regclass
  FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
  WHERE p.pronamespace = 'audit'::regnamespace AND starts_with(p.proname, 'record_')
$$;

COMMENT ON FUNCTION audit.state_sources IS
  'Which tables have streams: the prefix of their streams and the table, as the triggers that audit.make_recorder made say.';

CREATE FUNCTION audit.history_faults(p_tenant bigint, p_prefix text, p_entities uuid[])
RETURNS TABLE (stream text, version bigint, detail text)
LANGUAGE plpgsql SECURITY DEFINER STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
BEGIN
  RETURN QUERY EXECUTE format($q$
    SELECT $2 || '/' || id, told.version,
           CASE WHEN kept.seq IS NULL THEN format('row %%s of its history is gone', seq)
                WHEN told.seq IS NULL THEN format('row %%s of its history is there, and no event tells of it', seq)
                ELSE format('%%s of row %%s of its history is not what the event says',
                            (SELECT string_agg(c.name, ', ')
                             FROM (VALUES ('from_status', told.from_status, kept.from_status), ('to_status', told.to_status, kept.to_status),
                                          ('changed_by', told.changed_by, kept.changed_by), ('changed_at', told.changed_at, kept.changed_at),
                                          ('reason', told.reason, kept.reason), ('request_id', told.request_id, kept.request_id))
                                  AS c(name, said, is_now)
                             WHERE c.said IS DISTINCT FROM c.is_now), seq) END
    FROM (SELECT s.id, row_number() OVER (PARTITION BY s.id ORDER BY s.version) AS seq, s.version, s.from_status, s.to_status,
                 s.actor::text AS changed_by, s.occurred_us::text AS changed_at, s.reason, s.request_id
          FROM (SELECT i.id, e.version, e.actor, e.occurred_us, b.reason, b."requestId" AS request_id, b.snapshot ->> 'status' AS to_status,
                       lag(b.snapshot ->> 'status') OVER (PARTITION BY i.id ORDER BY e.version) AS from_status
                FROM unnest($3) AS i(id)
                -- OFFSET 0 keeps the subquery apart, so that it is run for each id, by its index.
                CROSS JOIN LATERAL (SELECT x.version, x.actor, x.occurred_us, x.body FROM audit.events x
                                    WHERE x.tenant_id = $1 AND x.stream = $2 || '/' || i.id OFFSET 0) e
                CROSS JOIN LATERAL json_to_record(e.body::json) AS b(reason text, snapshot json, "requestId" text)) s
          WHERE s.version = 1 OR s.to_status IS DISTINCT FROM s.from_status) told
    FULL JOIN (SELECT h.%2$I AS id, h.seq::bigint, h.from_status, h.to_status, h.changed_by::text,
                      (extract(epoch FROM h.changed_at) * 1000000)::bigint::text AS changed_at, h.reason::text, h.request_id
               FROM unnest($3) AS i(id)
               CROSS JOIN LATERAL (SELECT x.* FROM waybill.%1$I x WHERE x.tenant_id = $1 AND x.%2$I = i.id OFFSET 0) h) kept USING (id, seq)
    WHERE (told.from_status, told.to_status, told.changed_by, told.changed_at, told.reason, told.request_id)
          IS DISTINCT FROM (kept.from_status, kept.to_status, kept.changed_by, kept.changed_at, kept.reason, kept.request_id)
    ORDER BY id, seq LIMIT 1 $q$, p_prefix || '_status_history', p_prefix || '_id')
  USING p_tenant, p_prefix, p_entities;
END
$$;

COMMENT ON FUNCTION audit.history_faults IS
  'Compares the status histories of entities with their events, row by row: states, who, when, why and in which request. At most one row: the first fault. In the tenant''s context.';

CREATE FUNCTION audit.state_faults(p_tenant bigint, p_prefix text, p_after uuid, p_limit int)
RETURNS TABLE (last_id uuid, code text, stream text, version bigint, detail text)
LANGUAGE plpgsql SECURITY DEFINER STABLE SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
  v_source record;
  v_entity record;
  v_values text;
  v_ids uuid[] := '{}';
  v_has_history boolean;
BEGIN
  SELECT s.* INTO STRICT v_source FROM audit.state_sources() s WHERE s.prefix = p_prefix;
  FOR v_entity IN EXECUTE format($q$
    SELECT t.id, waybill.%I(t.entity)::jsonb AS state, e.version, e.body::jsonb -> 'snapshot' AS snapshot
    FROM (SELECT x.id, x AS entity FROM %s x WHERE x.tenant_id = $1 AND x.id > $2 ORDER BY x.id LIMIT $3) t
    LEFT JOIN LATERAL (SELECT version, body FROM audit.events
                       WHERE tenant_id = $1 AND stream = $4 || '/' || t.id ORDER BY version DESC LIMIT 1) e ON true
    ORDER BY t.id $q$, v_source.prefix || '_snapshot', v_source.entity_table)
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

  v_has_history := to_regclass(format('waybill.%I', p_prefix || '_status_history')) IS NOT NULL;
  IF code IS NULL AND v_has_history AND cardinality(v_ids) > 0 THEN
    SELECT h.stream, h.version, 'HISTORY_DRIFT', h.detail INTO stream, version, code, detail
    FROM audit.history_faults(p_tenant, p_prefix, v_ids) h;
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
  IF code IS NULL AND v_has_history AND p_after = '00000000-0000-0000-0000-000000000000' THEN
    EXECUTE format($q$
      SELECT $2 || '/' || h.%2$I, 'HISTORY_DRIFT', 'it has a history, and it is not there' FROM waybill.%1$I h
      WHERE h.tenant_id = $1 AND (SELECT t.id FROM %3$s t WHERE t.tenant_id = $1 AND t.id = h.%2$I) IS NULL
      ORDER BY h.%2$I LIMIT 1 $q$, p_prefix || '_status_history', p_prefix || '_id', v_source.entity_table)
    INTO stream, code, detail USING p_tenant, p_prefix;
  END IF;
  RETURN NEXT;
END
$$;

COMMENT ON FUNCTION audit.state_faults IS
  'Compares the next entities of one table with the last events of their streams, through the same snapshot function, on the members that the event has, and their status histories with all events. One row: the last entity that was looked at, and the first fault. In the tenant''s context.';

GRANT EXECUTE ON FUNCTION audit.state_sources, audit.state_faults TO waybill_sealer;

RESET ROLE;
