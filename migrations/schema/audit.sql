-- What the area audit makes, as PostgreSQL 18 describes it: for reading and reviewing; nothing runs this file.
-- npm run migration:release writes it.

CREATE SCHEMA audit AUTHORIZATION waybill_audit;
GRANT USAGE ON SCHEMA audit TO waybill_app;
GRANT USAGE ON SCHEMA audit TO waybill_owner;
GRANT USAGE ON SCHEMA audit TO waybill_sealer;

ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;

CREATE TABLE audit.checkpoints (
  tenant_id bigint NOT NULL,
  size bigint NOT NULL,
  root waybill.bytes32 NOT NULL,
  note text NOT NULL,
  created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
ALTER TABLE audit.checkpoints ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE audit.checkpoints ADD CONSTRAINT checkpoints_pkey PRIMARY KEY (tenant_id, size);
CREATE POLICY checkpoints_seal ON audit.checkpoints FOR ALL TO waybill_sealer USING (true) WITH CHECK (true);
CREATE POLICY checkpoints_tenant ON audit.checkpoints FOR SELECT TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER checkpoints_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit.checkpoints FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();
ALTER TABLE audit.checkpoints ENABLE ALWAYS TRIGGER checkpoints_00_append_only;
GRANT SELECT ON audit.checkpoints TO waybill_app;
GRANT SELECT ON audit.checkpoints TO waybill_owner;
GRANT INSERT ON audit.checkpoints TO waybill_sealer;
GRANT SELECT ON audit.checkpoints TO waybill_sealer;

CREATE TABLE audit.events (
  tenant_id bigint NOT NULL,
  stream text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  event_id uuid NOT NULL,
  type text COLLATE "C" NOT NULL,
  actor uuid NOT NULL,
  occurred_us bigint NOT NULL,
  body text NOT NULL,
  prev_hash bytea NOT NULL,
  event_hash bytea NOT NULL,
  format smallint NOT NULL
);
ALTER TABLE audit.events ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE audit.events ADD CONSTRAINT events_pkey PRIMARY KEY (tenant_id, stream, version);
CREATE POLICY events_append ON audit.events FOR INSERT TO waybill_audit WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE POLICY events_seal ON audit.events FOR SELECT TO waybill_sealer USING (true);
CREATE POLICY events_tenant ON audit.events FOR SELECT TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER events_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit.events FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();
ALTER TABLE audit.events ENABLE ALWAYS TRIGGER events_00_append_only;
GRANT SELECT ON audit.events TO waybill_app;
GRANT SELECT ON audit.events TO waybill_owner;
GRANT SELECT ON audit.events TO waybill_sealer;
COMMENT ON COLUMN audit.events.body IS 'JSON text, stored verbatim and hashed as stored.';
COMMENT ON COLUMN audit.events.occurred_us IS 'Microseconds since 1970-01-01T00:00:00Z.';

CREATE TABLE audit.keys (
  tenant_id bigint NOT NULL,
  generation integer NOT NULL,
  valid_from bigint NOT NULL,
  checkpoint_key waybill.bytes32 NOT NULL,
  event_key waybill.bytes32 NOT NULL,
  created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
ALTER TABLE audit.keys ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE audit.keys ADD CONSTRAINT keys_pkey PRIMARY KEY (tenant_id, generation, valid_from);
CREATE POLICY keys_seal ON audit.keys FOR ALL TO waybill_sealer USING (true) WITH CHECK (true);
CREATE POLICY keys_tenant ON audit.keys FOR SELECT TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER keys_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit.keys FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();
ALTER TABLE audit.keys ENABLE ALWAYS TRIGGER keys_00_append_only;
GRANT SELECT ON audit.keys TO waybill_app;
GRANT SELECT ON audit.keys TO waybill_owner;
GRANT INSERT ON audit.keys TO waybill_sealer;
GRANT SELECT ON audit.keys TO waybill_sealer;
COMMENT ON COLUMN audit.keys.generation IS 'From 1; one more after each restore. From 2 on it is the last part of the log''s name.';
COMMENT ON COLUMN audit.keys.valid_from IS 'Index of the first leaf that the event key signs.';
COMMENT ON TABLE audit.keys IS 'Ed25519 keys of each log, for whoever goes on with it. What a verifier believes are the log''s own events, which are signed.';

CREATE TABLE audit.leaves (
  tenant_id bigint NOT NULL,
  leaf_index bigint NOT NULL,
  stream text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  sealed_us bigint NOT NULL,
  signature bytea NOT NULL,
  leaf_hash waybill.bytes32 NOT NULL
);
ALTER TABLE audit.leaves ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE audit.leaves ADD CONSTRAINT leaves_event_key UNIQUE (tenant_id, stream, version);
ALTER TABLE audit.leaves ADD CONSTRAINT leaves_index_range CHECK (((leaf_index >= 0) AND (leaf_index <= '9007199254740991'::bigint)));
ALTER TABLE audit.leaves ADD CONSTRAINT leaves_pkey PRIMARY KEY (tenant_id, leaf_index);
ALTER TABLE audit.leaves ADD CONSTRAINT leaves_signature_length CHECK ((octet_length(signature) = 64));
CREATE POLICY leaves_seal ON audit.leaves FOR ALL TO waybill_sealer USING (true) WITH CHECK (true);
CREATE POLICY leaves_tenant ON audit.leaves FOR SELECT TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER leaves_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit.leaves FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();
ALTER TABLE audit.leaves ENABLE ALWAYS TRIGGER leaves_00_append_only;
GRANT SELECT ON audit.leaves TO waybill_app;
GRANT SELECT ON audit.leaves TO waybill_owner;
GRANT INSERT ON audit.leaves TO waybill_sealer;
GRANT SELECT ON audit.leaves TO waybill_sealer;
COMMENT ON COLUMN audit.leaves.sealed_us IS 'When it was signed: microseconds since 1970-01-01T00:00:00Z by the clock of who signed. Never less than in the leaf before.';

CREATE TABLE audit.logs (
  tenant_id bigint NOT NULL,
  origin text COLLATE "C" NOT NULL,
  created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
ALTER TABLE audit.logs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE audit.logs ADD CONSTRAINT logs_pkey PRIMARY KEY (tenant_id);
CREATE POLICY logs_lock ON audit.logs FOR UPDATE TO waybill_audit USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE POLICY logs_seal ON audit.logs FOR ALL TO waybill_sealer USING (true) WITH CHECK (true);
CREATE POLICY logs_tenant ON audit.logs FOR SELECT TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER logs_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit.logs FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();
ALTER TABLE audit.logs ENABLE ALWAYS TRIGGER logs_00_append_only;
GRANT SELECT ON audit.logs TO waybill_app;
GRANT SELECT ON audit.logs TO waybill_owner;
GRANT INSERT ON audit.logs TO waybill_sealer;
GRANT SELECT ON audit.logs TO waybill_sealer;
GRANT UPDATE ON audit.logs TO waybill_sealer;
COMMENT ON COLUMN audit.logs.origin IS 'Its first name; audit.keys has the generation that is appended after a restore.';
COMMENT ON TABLE audit.logs IS 'One log a tenant, made when its first event is sealed. Its row is the lock of whoever appends.';

CREATE TABLE audit.nodes (
  tenant_id bigint NOT NULL,
  level smallint NOT NULL,
  node_index bigint NOT NULL,
  hash waybill.bytes32 NOT NULL
);
ALTER TABLE audit.nodes ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE audit.nodes ADD CONSTRAINT nodes_level_check CHECK (((level > 0) AND (((level)::integer % 8) = 0)));
ALTER TABLE audit.nodes ADD CONSTRAINT nodes_pkey PRIMARY KEY (tenant_id, level, node_index);
CREATE POLICY nodes_seal ON audit.nodes FOR ALL TO waybill_sealer USING (true) WITH CHECK (true);
CREATE POLICY nodes_tenant ON audit.nodes FOR SELECT TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER nodes_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit.nodes FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();
ALTER TABLE audit.nodes ENABLE ALWAYS TRIGGER nodes_00_append_only;
GRANT SELECT ON audit.nodes TO waybill_app;
GRANT SELECT ON audit.nodes TO waybill_owner;
GRANT INSERT ON audit.nodes TO waybill_sealer;
GRANT SELECT ON audit.nodes TO waybill_sealer;
COMMENT ON TABLE audit.nodes IS 'Roots of complete subtrees of 256, 65536, … leaves: level l, node i covers the leaves i * 2^l to (i + 1) * 2^l - 1. Nodes between are computed from at most 255 hashes.';

CREATE TABLE audit.publications (
  tenant_id bigint NOT NULL,
  generation integer NOT NULL,
  size bigint NOT NULL,
  note text NOT NULL,
  published_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
ALTER TABLE audit.publications ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE audit.publications ADD CONSTRAINT publications_pkey PRIMARY KEY (tenant_id, generation, size);
CREATE POLICY publications_seal ON audit.publications FOR ALL TO waybill_sealer USING (true) WITH CHECK (true);
CREATE POLICY publications_tenant ON audit.publications FOR SELECT TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER publications_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit.publications FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();
ALTER TABLE audit.publications ENABLE ALWAYS TRIGGER publications_00_append_only;
GRANT SELECT ON audit.publications TO waybill_app;
GRANT SELECT ON audit.publications TO waybill_owner;
GRANT INSERT ON audit.publications TO waybill_sealer;
GRANT SELECT ON audit.publications TO waybill_sealer;
COMMENT ON COLUMN audit.publications.generation IS 'Of the log''s name, from 1; one more after each restore.';
COMMENT ON TABLE audit.publications IS 'Checkpoints as they were published: with the cosignatures of the witnesses, where there are some. What is signed and not here is known to nobody outside.';

CREATE TABLE audit.queue (
  tenant_id bigint NOT NULL,
  stream text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  occurred_us bigint NOT NULL
);
ALTER TABLE audit.queue ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE audit.queue ADD CONSTRAINT queue_pkey PRIMARY KEY (tenant_id, stream, version);
CREATE POLICY queue_append ON audit.queue FOR INSERT TO waybill_audit WITH CHECK ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE POLICY queue_seal ON audit.queue FOR ALL TO waybill_sealer USING (true) WITH CHECK (true);
CREATE POLICY queue_tenant ON audit.queue FOR SELECT TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER queue_00_append_only BEFORE UPDATE OR TRUNCATE ON audit.queue FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();
ALTER TABLE audit.queue ENABLE ALWAYS TRIGGER queue_00_append_only;
GRANT SELECT ON audit.queue TO waybill_app;
GRANT SELECT ON audit.queue TO waybill_owner;
GRANT DELETE ON audit.queue TO waybill_sealer;
GRANT SELECT ON audit.queue TO waybill_sealer;
COMMENT ON TABLE audit.queue IS 'Events that are not sealed yet. The append writes a row, the sealing takes it away; nothing depends on the order of commits.';

CREATE TABLE audit.verifications (
  tenant_id bigint NOT NULL,
  id uuid NOT NULL,
  started_at timestamp with time zone NOT NULL,
  finished_at timestamp with time zone NOT NULL,
  verdict text COLLATE "C" NOT NULL,
  from_index bigint NOT NULL,
  size bigint NOT NULL,
  root bytea NOT NULL,
  result jsonb NOT NULL,
  signature bytea
);
ALTER TABLE audit.verifications ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
ALTER TABLE audit.verifications ADD CONSTRAINT verifications_pkey PRIMARY KEY (tenant_id, id);
ALTER TABLE audit.verifications ADD CONSTRAINT verifications_verdict_check CHECK ((verdict = ANY (ARRAY['intact'::text, 'tampered'::text, 'unverifiable'::text])));
CREATE INDEX verifications_finished_idx ON audit.verifications USING btree (tenant_id, finished_at);
CREATE POLICY verifications_seal ON audit.verifications FOR ALL TO waybill_sealer USING (true) WITH CHECK (true);
CREATE POLICY verifications_tenant ON audit.verifications FOR SELECT TO PUBLIC USING ((tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint));
CREATE TRIGGER verifications_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit.verifications FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change();
ALTER TABLE audit.verifications ENABLE ALWAYS TRIGGER verifications_00_append_only;
GRANT SELECT ON audit.verifications TO waybill_app;
GRANT SELECT ON audit.verifications TO waybill_owner;
GRANT INSERT ON audit.verifications TO waybill_sealer;
GRANT SELECT ON audit.verifications TO waybill_sealer;
COMMENT ON COLUMN audit.verifications.signature IS 'By whoever verified, where everything was intact and a signing key at hand: a later verification need not read these leaves again.';

CREATE VIEW audit.field_changes WITH (security_invoker=true) AS
 SELECT e.tenant_id,
    ((e.body)::jsonb ->> 'table'::text) AS table_name,
    split_part(e.stream, '/'::text, 2) AS record_id,
    e.version,
    c.key AS field_name,
        CASE
            WHEN (e.version > 1) THEN NULLIF((c.value -> 'old'::text), 'null'::jsonb)
            ELSE NULL::jsonb
        END AS old_value,
        CASE
            WHEN (e.version > 1) THEN NULLIF((c.value -> 'new'::text), 'null'::jsonb)
            ELSE c.value
        END AS new_value,
    e.actor AS changed_by,
    ('1970-01-01 00:00:00+00'::timestamp with time zone + ((e.occurred_us)::double precision * '00:00:00.000001'::interval)) AS changed_at
   FROM (audit.events e
     CROSS JOIN LATERAL jsonb_each(((e.body)::jsonb ->
        CASE
            WHEN (e.version > 1) THEN 'changes'::text
            ELSE 'snapshot'::text
        END)) c(key, value));
GRANT SELECT ON audit.field_changes TO waybill_app;
GRANT SELECT ON audit.field_changes TO waybill_owner;
GRANT SELECT ON audit.field_changes TO waybill_sealer;

CREATE OR REPLACE FUNCTION audit.append(p_tenant bigint, p_event_id uuid, p_stream text, p_version bigint, p_occurred_us bigint, p_type text, p_actor uuid, p_body text, p_prev_hash bytea)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  INSERT INTO audit.events (tenant_id, stream, version, event_id, type, actor, occurred_us, body, prev_hash, event_hash, format)
  VALUES (p_tenant, p_stream, p_version, p_event_id, p_type, p_actor, p_occurred_us, p_body, p_prev_hash,
          audit.event_hash(p_tenant, p_event_id, p_stream, p_version, p_occurred_us, p_type, p_actor, p_body, p_prev_hash, 1::smallint), 1);
  INSERT INTO audit.queue (tenant_id, stream, version, occurred_us) VALUES (p_tenant, p_stream, p_version, p_occurred_us);
END
$function$;
COMMENT ON FUNCTION audit.append(bigint,uuid,text,bigint,bigint,text,uuid,text,bytea) IS 'Appends one event and queues it for sealing. Nobody but waybill_audit''s own functions may execute it.';

CREATE OR REPLACE FUNCTION audit.changes(p_old json, p_new json)
 RETURNS json
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_aligned boolean;
  v_changes json;
BEGIN
  -- Two snapshots of one version of their function have the same members in the same order.
  SELECT bool_and(z.old_key = z.new_key),
         json_object_agg(z.new_key, json_build_object('old', z.old_value, 'new', z.new_value))
           FILTER (WHERE z.old_value::text <> z.new_value::text AND z.old_value::jsonb <> z.new_value::jsonb
                     AND z.new_key NOT IN ('version', 'updatedAt'))
  INTO v_aligned, v_changes
  FROM ROWS FROM (json_each(p_old), json_each(p_new)) AS z(old_key, old_value, new_key, new_value);
  IF v_aligned IS NOT TRUE THEN
    SELECT json_object_agg(key, json_build_object('old', o.value, 'new', n.value)) INTO v_changes
    FROM json_each(p_old) o FULL JOIN json_each(p_new) n USING (key)
    WHERE o.value::jsonb IS DISTINCT FROM n.value::jsonb AND key NOT IN ('version', 'updatedAt');
  END IF;
  RETURN coalesce(v_changes, '{}');
END
$function$;
COMMENT ON FUNCTION audit.changes(json,json) IS 'Field to {old, new} for the top-level members in which two snapshots differ; version and updatedAt always do and are left out.';

CREATE OR REPLACE FUNCTION audit.create_machine_recorder(p_machine text, p_table regclass, p_parts text, p_erasure_type text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  EXECUTE format($create$
CREATE FUNCTION audit.%1$I() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $record$
DECLARE
  v_type text := 'updated';
  v_reason text;
  v_rule_version int;
BEGIN
  IF TG_OP = 'INSERT' THEN
    v_type := 'created';
    INSERT INTO waybill.%3$I (tenant_id, %4$I, seq, to_status, changed_by, changed_at, request_id)
    VALUES (NEW.tenant_id, NEW.id, 1, NEW.status, current_setting('waybill.actor')::uuid, NEW.updated_at,
            nullif(current_setting('waybill.request_id', true), ''));
  ELSIF NEW.version = OLD.version THEN
    RETURN NULL;
  ELSIF NEW.status <> OLD.status THEN
    v_type := NEW.status;
    SELECT h.reason, h.rule_version INTO STRICT v_reason, v_rule_version FROM waybill.%3$I h
    WHERE h.tenant_id = NEW.tenant_id AND h.%4$I = NEW.id ORDER BY h.seq DESC LIMIT 1;
  ELSE
    PERFORM waybill.require_actor(NEW.tenant_id);
  END IF;
  PERFORM audit.record(%6$L, %2$L || NEW.id, NEW.tenant_id, NEW.version, NEW.updated_at,
                       %7$L || v_type, v_reason, v_rule_version, waybill.%5$I(NEW), %8$L, %9$L);
  RETURN NULL;
END
$record$ $create$,
    'record_' || p_machine, p_machine || '/', p_machine || '_status_history', p_machine || '_id', p_machine || '_snapshot',
    (SELECT c.relname FROM pg_class c WHERE c.oid = p_table), p_machine || '.', p_parts, p_erasure_type);
  PERFORM audit.hand_over_recorder(p_machine,
    'Made by audit.create_machine_recorder: appends an event for each version of an entity, and begins its history. Who acted is a user of the tenant: the history refers to him, and a change without a step asks.');
END
$function$;
GRANT EXECUTE ON FUNCTION audit.create_machine_recorder(text,regclass,text,text) TO waybill_owner;
COMMENT ON FUNCTION audit.create_machine_recorder(text,regclass,text,text) IS 'Makes the trigger function audit.record_<machine>. For waybill.attach_machine, as waybill_audit.';

CREATE OR REPLACE FUNCTION audit.create_recorder(p_prefix text, p_table regclass, p_update_type text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  EXECUTE format($create$
CREATE FUNCTION audit.%1$I() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $record$
DECLARE
  v_type text := 'created';
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF NEW.version = OLD.version THEN
      RETURN NULL;
    END IF;
    v_type := %6$s;
  END IF;
  PERFORM waybill.require_actor(NEW.tenant_id);
  PERFORM audit.record(%4$L, %2$L || NEW.id, NEW.tenant_id, NEW.version, NEW.updated_at,
                       %5$L || v_type, NULL, NULL, waybill.%3$I(NEW), NULL, NULL);
  RETURN NULL;
END
$record$ $create$,
    'record_' || p_prefix, p_prefix || '/', p_prefix || '_snapshot', (SELECT c.relname FROM pg_class c WHERE c.oid = p_table),
    p_prefix || '.', p_update_type);
  PERFORM audit.hand_over_recorder(p_prefix, 'Made by audit.create_recorder: appends an event for each version of an entity.');
END
$function$;
GRANT EXECUTE ON FUNCTION audit.create_recorder(text,regclass,text) TO waybill_owner;
COMMENT ON FUNCTION audit.create_recorder(text,regclass,text) IS 'Makes the trigger function audit.record_<prefix> of a table without states. For waybill.attach_stream, as waybill_audit.';

CREATE OR REPLACE FUNCTION audit.event_hash(p_tenant bigint, p_event_id uuid, p_stream text, p_version bigint, p_occurred_us bigint, p_type text, p_actor uuid, p_body text, p_prev_hash bytea, p_format smallint)
 RETURNS bytea
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE STRICT
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RETURN sha256(convert_to('waybill-audit/v' || p_format || E'\n', 'UTF8') || int8send(p_tenant) || uuid_send(p_event_id)
    || int4send(octet_length(p_stream)) || convert_to(p_stream, 'UTF8') || int8send(p_version) || int8send(p_occurred_us)
    || int4send(octet_length(p_type)) || convert_to(p_type, 'UTF8') || uuid_send(p_actor)
    || int4send(octet_length(p_body)) || convert_to(p_body, 'UTF8') || p_prev_hash);
END
$function$;
GRANT EXECUTE ON FUNCTION audit.event_hash(bigint,uuid,text,bigint,bigint,text,uuid,text,bytea,smallint) TO waybill_app;
GRANT EXECUTE ON FUNCTION audit.event_hash(bigint,uuid,text,bigint,bigint,text,uuid,text,bytea,smallint) TO waybill_owner;
GRANT EXECUTE ON FUNCTION audit.event_hash(bigint,uuid,text,bigint,bigint,text,uuid,text,bytea,smallint) TO waybill_sealer;

CREATE OR REPLACE FUNCTION audit.genesis_hash(p_tenant bigint, p_stream text)
 RETURNS bytea
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE STRICT
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RETURN sha256(convert_to(E'waybill-audit/genesis/v1\n', 'UTF8') || int8send(p_tenant)
    || int4send(octet_length(p_stream)) || convert_to(p_stream, 'UTF8'));
END
$function$;
GRANT EXECUTE ON FUNCTION audit.genesis_hash(bigint,text) TO waybill_app;
GRANT EXECUTE ON FUNCTION audit.genesis_hash(bigint,text) TO waybill_owner;
GRANT EXECUTE ON FUNCTION audit.genesis_hash(bigint,text) TO waybill_sealer;

CREATE OR REPLACE FUNCTION audit.hand_over_recorder(p_prefix text, p_comment text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  EXECUTE format('COMMENT ON FUNCTION audit.%I IS %L', 'record_' || p_prefix, p_comment);
  EXECUTE format('GRANT EXECUTE ON FUNCTION audit.%I TO waybill_owner', 'record_' || p_prefix);
END
$function$;

CREATE OR REPLACE FUNCTION audit.history_faults(p_tenant bigint, p_prefix text, p_entities uuid[])
 RETURNS TABLE(stream text, version bigint, detail text)
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET "TimeZone" TO 'UTC'
AS $function$
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
$function$;
COMMENT ON FUNCTION audit.history_faults(bigint,text,uuid[]) IS 'Compares the status histories of entities with their events, row by row: states, who, when, why and in which request. At most one row: the first fault. In the tenant''s context.';

CREATE OR REPLACE FUNCTION audit.make_append_only(p_table regclass, p_refused text DEFAULT 'UPDATE OR DELETE OR TRUNCATE'::text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_name text := (SELECT c.relname FROM pg_class c WHERE c.oid = p_table);
BEGIN
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', p_table);
  EXECUTE format('CREATE POLICY %I ON %s FOR SELECT
                    USING (tenant_id = nullif(current_setting(''waybill.tenant_id'', true), '''')::bigint)',
                 v_name || '_tenant', p_table);
  EXECUTE format('CREATE TRIGGER %I BEFORE %s ON %s FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change()',
                 v_name || '_00_append_only', p_refused, p_table);
  EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', p_table, v_name || '_00_append_only');
  EXECUTE format('GRANT SELECT ON %s TO waybill_owner, waybill_app, waybill_sealer', p_table);
END
$function$;
COMMENT ON FUNCTION audit.make_append_only(regclass,text) IS 'Makes a table of schema audit one that tenants read their own rows of and nobody changes, even under session_replication_role = replica. For migrations.';

CREATE OR REPLACE FUNCTION audit.make_sealers(p_table regclass)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_name text := (SELECT c.relname FROM pg_class c WHERE c.oid = p_table);
BEGIN
  EXECUTE format('CREATE POLICY %I ON %s TO waybill_sealer USING (true) WITH CHECK (true)', v_name || '_seal', p_table);
  EXECUTE format('GRANT INSERT ON %s TO waybill_sealer', p_table);
END
$function$;
COMMENT ON FUNCTION audit.make_sealers(regclass) IS 'Lets the sealer read a table for all tenants and add to it. For migrations.';

CREATE OR REPLACE FUNCTION audit.pii_digest(p_salt bytea, p_field text, p_value text)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE STRICT
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RETURN encode(sha256(convert_to(E'waybill-pii/v1\n', 'UTF8') || p_salt
    || int4send(octet_length(p_field)) || convert_to(p_field, 'UTF8')
    || int4send(octet_length(p_value)) || convert_to(p_value, 'UTF8')), 'hex');
END
$function$;
GRANT EXECUTE ON FUNCTION audit.pii_digest(bytea,text,text) TO waybill_owner;

CREATE OR REPLACE FUNCTION audit.record(p_table text, p_stream text, p_tenant bigint, p_version bigint, p_at timestamp with time zone, p_type text, p_reason text, p_rule_version integer, p_snapshot text, p_parts text, p_erasure_type text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
  v_type text := p_type;
  v_prev_hash bytea;
  v_prev_body text;
  v_changes json;
BEGIN
  IF p_version = 1 THEN
    v_prev_hash := audit.genesis_hash(p_tenant, p_stream);
  ELSE
    SELECT e.event_hash, e.body INTO STRICT v_prev_hash, v_prev_body FROM audit.events e
    WHERE e.tenant_id = p_tenant AND e.stream = p_stream AND e.version = p_version - 1;
    -- The end of a body is its snapshot's. Equal text needs no parsing, and a quote within a value has a backslash before it.
    IF split_part(v_prev_body, p_parts, 2) = split_part(p_snapshot, p_parts, 2) || '}' THEN
      v_changes := audit.changes(
        concat(split_part(split_part(v_prev_body, p_parts, 1), ',"snapshot":', 2), '}')::json,
        concat(split_part(p_snapshot, p_parts, 1), '}')::json);
    ELSE
      v_changes := audit.changes(v_prev_body::json -> 'snapshot', p_snapshot::json);
      IF p_erasure_type IS NOT NULL AND json_typeof(v_changes #> '{contacts,new}') = 'null' THEN
        v_type := p_erasure_type;
      END IF;
    END IF;
  END IF;
  PERFORM audit.append(
    p_tenant, gen_random_uuid(), p_stream, p_version, (extract(epoch FROM p_at) * 1000000)::bigint, v_type,
    current_setting('waybill.actor')::uuid,
    concat('{"table":"', p_table, '","reason":', coalesce(to_json(p_reason)::text, 'null'), ',"requestId":',
           coalesce(to_json(nullif(current_setting('waybill.request_id', true), ''))::text, 'null'),
           ',"keyDigest":' || to_json(nullif(current_setting('waybill.key_digest', true), '')), ',"ruleVersion":' || p_rule_version,
           ',"changes":', coalesce(v_changes::text, 'null'), ',"snapshot":', p_snapshot, '}'),
    v_prev_hash);
END
$function$;
COMMENT ON FUNCTION audit.record(text,text,bigint,bigint,timestamp with time zone,text,text,integer,text,text,text) IS 'Appends the event of one version of an entity: its snapshot, and the difference to the snapshot before. p_parts: the text that begins the members at the end of a snapshot which seldom change, such as ,"lines": — or null. p_erasure_type: the type where contacts are there no more, or null. Nobody but waybill_audit''s own functions may execute it.';

CREATE OR REPLACE FUNCTION audit.record_log_event(p_tenant bigint, p_type text, p_snapshot jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET "TimeZone" TO 'UTC'
AS $function$
DECLARE
  v_stream text := 'log/' || p_tenant;
  v_last audit.events;
  v_actor uuid := waybill.system_user(p_tenant);
  v_occurred_us bigint := extract(epoch FROM clock_timestamp()) * 1000000;
BEGIN
  IF p_type NOT IN ('log.started', 'log.key-rotated', 'log.resumed') THEN
    RAISE EXCEPTION 'A log has no events of the type %', p_type USING ERRCODE = 'WB002';
  END IF;
  -- Whoever appends to the log holds its row, so this stream cannot fork either.
  PERFORM FROM audit.logs l WHERE l.tenant_id = p_tenant FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'Tenant % has no log in this context', p_tenant
      USING ERRCODE = 'WB001', HINT = 'First in the same transaction: SELECT waybill.set_context(tenant, NULL, …);';
  END IF;
  SELECT e.* INTO v_last FROM audit.events e
  WHERE e.tenant_id = p_tenant AND e.stream = v_stream ORDER BY e.version DESC LIMIT 1;
  PERFORM audit.append(p_tenant, gen_random_uuid(), v_stream, coalesce(v_last.version, 0) + 1,
    greatest(v_occurred_us, v_last.occurred_us + 1), p_type, v_actor,
    jsonb_build_object('table', 'logs', 'reason', NULL, 'changes', NULL, 'snapshot', p_snapshot, 'requestId', NULL)::text,
    coalesce(v_last.event_hash, audit.genesis_hash(p_tenant, v_stream)));
  RETURN coalesce(v_last.version, 0) + 1;
END
$function$;
GRANT EXECUTE ON FUNCTION audit.record_log_event(bigint,text,jsonb) TO waybill_sealer;
COMMENT ON FUNCTION audit.record_log_event(bigint,text,jsonb) IS 'Appends an event about the log itself to the stream log/<tenant>, as the tenant''s system user, and returns its version. For waybill_sealer, in the tenant''s context.';

CREATE OR REPLACE FUNCTION audit.refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
  RAISE EXCEPTION '% on %.% is refused: it is append-only', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
    USING ERRCODE = 'WB002';
END
$function$;

CREATE OR REPLACE FUNCTION audit.state_faults(p_tenant bigint, p_prefix text, p_after uuid, p_limit integer)
 RETURNS TABLE(last_id uuid, code text, stream text, version bigint, detail text)
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET "TimeZone" TO 'UTC'
AS $function$
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
$function$;
GRANT EXECUTE ON FUNCTION audit.state_faults(bigint,text,uuid,integer) TO waybill_sealer;
COMMENT ON FUNCTION audit.state_faults(bigint,text,uuid,integer) IS 'Compares the next entities of one table with the last events of their streams, through the same snapshot function, on the members that the event has, and their status histories with all events. One row: the last entity that was looked at, and the first fault. In the tenant''s context.';

CREATE OR REPLACE FUNCTION audit.state_sources()
 RETURNS TABLE(prefix text, entity_table regclass)
 LANGUAGE sql
 STABLE
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
  SELECT DISTINCT substr(p.proname, length('record_') + 1), t.tgrelid::regclass
  FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
  WHERE p.pronamespace = 'audit'::regnamespace AND starts_with(p.proname, 'record_')
$function$;
GRANT EXECUTE ON FUNCTION audit.state_sources() TO waybill_sealer;
COMMENT ON FUNCTION audit.state_sources() IS 'Which tables have streams: the prefix of their streams and the table, as the triggers that audit.make_recorder made say.';

CREATE OR REPLACE FUNCTION waybill.attach_stream(p_prefix text, p_table regclass, p_unversioned text[] DEFAULT '{}'::text[], p_update_type text DEFAULT '''updated'''::text)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
COMMENT ON FUNCTION waybill.attach_stream(text,regclass,text[],text) IS 'Makes each row of a table an entity with a history: a version a change, and an event on <prefix>/<id> for each. The table has tenant_id, id, version and updated_at, and no states (see waybill.attach_machine for those); a function waybill.<prefix>_snapshot(row) returning JSON text says what an event keeps. p_unversioned: columns that may change without a version, and are in no snapshot. p_update_type: SQL over NEW and OLD for the type of a change, such as CASE WHEN … THEN ''revoked'' ELSE ''updated'' END. For migrations.';

CREATE OR REPLACE FUNCTION waybill.guard_version()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
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
$function$;
COMMENT ON FUNCTION waybill.guard_version() IS 'BEFORE INSERT OR UPDATE … FOR EACH ROW of a table that waybill.attach_stream was called for: counts versions and says when.';
