CREATE FUNCTION waybill.guard_version() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.version IS DISTINCT FROM 1 THEN
      RAISE EXCEPTION '% % cannot begin at version %: versions begin at 1', TG_TABLE_NAME, NEW.id, NEW.version USING ERRCODE = 'WB003';
    END IF;
    NEW.updated_at := clock_timestamp();
    RETURN NEW;
  END IF;
  IF NEW.version IS DISTINCT FROM OLD.version THEN
    RAISE EXCEPTION '% % is at version %: the next one is %, not %', TG_TABLE_NAME, OLD.id, OLD.version, OLD.version + 1, NEW.version
      USING ERRCODE = 'WB003', HINT = 'Leave version out of the UPDATE: it counts by itself.';
  END IF;
  NEW.version := OLD.version + 1;
  NEW.updated_at := greatest(clock_timestamp(), OLD.updated_at + interval '1 microsecond');
  RETURN NEW;
END
$$;

COMMENT ON FUNCTION waybill.guard_version IS
  'BEFORE INSERT OR UPDATE … FOR EACH ROW of a table that waybill.attach_stream was called for: counts versions and says when.';

CREATE FUNCTION waybill.attach_stream(p_prefix text, p_table regclass, p_unversioned text[] DEFAULT '{}', p_update_type text DEFAULT '''updated''')
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_name text := (SELECT c.relname FROM pg_class c WHERE c.oid = p_table);
  v_changed text;
  v_migrator name := current_user;
BEGIN
  SELECT format('(%s) IS DISTINCT FROM (%s)', string_agg(format('NEW.%I', a.attname), ', ' ORDER BY a.attnum),
                string_agg(format('OLD.%I', a.attname), ', ' ORDER BY a.attnum))
  INTO v_changed FROM pg_attribute a
  WHERE a.attrelid = p_table AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> ALL (p_unversioned);
  EXECUTE format('CREATE TRIGGER %I BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION waybill.guard_version()',
                 v_name || '_20_version_insert', p_table);
  EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION waybill.guard_version()',
                 v_name || '_20_version_update', p_table, v_changed);
  EXECUTE format('GRANT SELECT ON %s TO waybill_audit', p_table);
  EXECUTE format('GRANT EXECUTE ON FUNCTION waybill.%I(%s) TO waybill_audit', p_prefix || '_snapshot', p_table);
  -- Events belong to waybill_audit, and so does whatever appends them.
  SET LOCAL ROLE waybill_audit;
  PERFORM audit.create_recorder(p_prefix, p_table, p_update_type);
  EXECUTE format('SET LOCAL ROLE %I', v_migrator);
  EXECUTE format('CREATE TRIGGER %I AFTER INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION audit.%I()',
                 v_name || '_50_record', p_table, 'record_' || p_prefix);
END
$$;

COMMENT ON FUNCTION waybill.attach_stream IS
  'Makes each row of a table an entity with a history: a version a change, and an event on <prefix>/<id> for each. The table has tenant_id, id, version and updated_at, and no states (see waybill.attach_machine for those); a function waybill.<prefix>_snapshot(row) returning JSON text says what an event keeps. p_unversioned: columns that may change without a version, and are in no snapshot. p_update_type: SQL over NEW and OLD for the type of a change, such as CASE WHEN … THEN ''revoked'' ELSE ''updated'' END. For migrations.';
