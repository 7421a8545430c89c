-- The schema as the migrations make it, for reading and reviewing; nothing runs this file. The golden test compares it:
--   UPDATE_GOLDEN=1 npm test -- golden-schema
-- writes it anew after a migration was changed or added.

-- Schemas ---------------------------------------------------------------------------------------------------------

SCHEMA audit OWNER waybill_audit
  GRANT USAGE TO waybill_app
  GRANT USAGE TO waybill_owner
  GRANT USAGE TO waybill_sealer

SCHEMA waybill OWNER waybill_owner
  GRANT USAGE TO waybill_app
  GRANT USAGE TO waybill_audit
  GRANT USAGE TO waybill_sealer

-- Tables ----------------------------------------------------------------------------------------------------------

TABLE audit.checkpoints OWNER waybill_audit ROW LEVEL SECURITY FORCED
  tenant_id bigint NOT NULL
  size bigint NOT NULL
  root bytea NOT NULL
  note text NOT NULL
  created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  CONSTRAINT checkpoints_pkey PRIMARY KEY (tenant_id, size)
  CONSTRAINT checkpoints_root_length CHECK ((octet_length(root) = 32))
  POLICY checkpoints_seal PERMISSIVE FOR ALL TO waybill_sealer USING true WITH CHECK true
  POLICY checkpoints_tenant PERMISSIVE FOR SELECT TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER checkpoints_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit.checkpoints FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change() -- ALWAYS
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_owner
  GRANT INSERT, SELECT TO waybill_sealer

TABLE audit.events OWNER waybill_audit ROW LEVEL SECURITY FORCED
  tenant_id bigint NOT NULL
  stream text COLLATE "C" NOT NULL
  version bigint NOT NULL
  event_id uuid NOT NULL
  type text COLLATE "C" NOT NULL
  actor uuid NOT NULL
  occurred_us bigint NOT NULL -- Microseconds since 1970-01-01T00:00:00Z.
  body text NOT NULL -- JSON text, stored verbatim and hashed as stored.
  prev_hash bytea NOT NULL
  event_hash bytea NOT NULL
  format smallint NOT NULL
  CONSTRAINT events_pkey PRIMARY KEY (tenant_id, stream, version)
  POLICY events_append PERMISSIVE FOR INSERT TO waybill_audit WITH CHECK (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  POLICY events_seal PERMISSIVE FOR SELECT TO waybill_sealer USING true
  POLICY events_tenant PERMISSIVE FOR SELECT TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER events_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit.events FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change() -- ALWAYS
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_owner
  GRANT SELECT TO waybill_sealer

TABLE audit.keys OWNER waybill_audit ROW LEVEL SECURITY FORCED
  tenant_id bigint NOT NULL
  valid_from bigint NOT NULL -- Index of the first leaf that this Ed25519 key signs.
  public_key bytea NOT NULL
  created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  CONSTRAINT keys_pkey PRIMARY KEY (tenant_id, valid_from)
  CONSTRAINT keys_public_key_length CHECK ((octet_length(public_key) = 32))
  POLICY keys_seal PERMISSIVE FOR ALL TO waybill_sealer USING true WITH CHECK true
  POLICY keys_tenant PERMISSIVE FOR SELECT TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER keys_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit.keys FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change() -- ALWAYS
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_owner
  GRANT INSERT, SELECT TO waybill_sealer

TABLE audit.leaves OWNER waybill_audit ROW LEVEL SECURITY FORCED
  tenant_id bigint NOT NULL
  leaf_index bigint NOT NULL
  stream text COLLATE "C" NOT NULL
  version bigint NOT NULL
  signature bytea NOT NULL
  leaf_hash bytea NOT NULL
  CONSTRAINT leaves_event_key UNIQUE (tenant_id, stream, version)
  CONSTRAINT leaves_hash_length CHECK ((octet_length(leaf_hash) = 32))
  CONSTRAINT leaves_index_range CHECK (((leaf_index >= 0) AND (leaf_index <= '9007199254740991'::bigint)))
  CONSTRAINT leaves_pkey PRIMARY KEY (tenant_id, leaf_index)
  CONSTRAINT leaves_signature_length CHECK ((octet_length(signature) = 64))
  POLICY leaves_seal PERMISSIVE FOR ALL TO waybill_sealer USING true WITH CHECK true
  POLICY leaves_tenant PERMISSIVE FOR SELECT TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER leaves_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit.leaves FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change() -- ALWAYS
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_owner
  GRANT INSERT, SELECT TO waybill_sealer

TABLE audit.logs OWNER waybill_audit ROW LEVEL SECURITY FORCED
  -- One log a tenant, made when its first event is sealed. Its row is the lock of whoever appends.
  tenant_id bigint NOT NULL
  origin text COLLATE "C" NOT NULL
  created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  CONSTRAINT logs_pkey PRIMARY KEY (tenant_id)
  POLICY logs_lock PERMISSIVE FOR UPDATE TO waybill_audit USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  POLICY logs_seal PERMISSIVE FOR ALL TO waybill_sealer USING true WITH CHECK true
  POLICY logs_tenant PERMISSIVE FOR SELECT TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER logs_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit.logs FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change() -- ALWAYS
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_owner
  GRANT INSERT, SELECT, UPDATE TO waybill_sealer

TABLE audit.nodes OWNER waybill_audit ROW LEVEL SECURITY FORCED
  -- Roots of complete subtrees of 256, 65536, … leaves: level l, node i covers the leaves i * 2^l to (i + 1) * 2^l - 1. Nodes between are computed from at most 255 hashes.
  tenant_id bigint NOT NULL
  level smallint NOT NULL
  node_index bigint NOT NULL
  hash bytea NOT NULL
  CONSTRAINT nodes_hash_length CHECK ((octet_length(hash) = 32))
  CONSTRAINT nodes_level_check CHECK (((level > 0) AND (((level)::integer % 8) = 0)))
  CONSTRAINT nodes_pkey PRIMARY KEY (tenant_id, level, node_index)
  POLICY nodes_seal PERMISSIVE FOR ALL TO waybill_sealer USING true WITH CHECK true
  POLICY nodes_tenant PERMISSIVE FOR SELECT TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER nodes_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit.nodes FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change() -- ALWAYS
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_owner
  GRANT INSERT, SELECT TO waybill_sealer

TABLE audit.queue OWNER waybill_audit ROW LEVEL SECURITY FORCED
  -- Events that are not sealed yet. The append writes a row, the sealing takes it away; nothing depends on the order of commits.
  tenant_id bigint NOT NULL
  stream text COLLATE "C" NOT NULL
  version bigint NOT NULL
  occurred_us bigint NOT NULL
  CONSTRAINT queue_pkey PRIMARY KEY (tenant_id, stream, version)
  POLICY queue_append PERMISSIVE FOR INSERT TO waybill_audit WITH CHECK (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  POLICY queue_seal PERMISSIVE FOR ALL TO waybill_sealer USING true WITH CHECK true
  POLICY queue_tenant PERMISSIVE FOR SELECT TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER queue_00_no_update BEFORE UPDATE OR TRUNCATE ON audit.queue FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change() -- ALWAYS
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_owner
  GRANT DELETE, SELECT TO waybill_sealer

TABLE audit.verifications OWNER waybill_audit ROW LEVEL SECURITY FORCED
  tenant_id bigint NOT NULL
  id uuid NOT NULL
  started_at timestamp with time zone NOT NULL
  finished_at timestamp with time zone NOT NULL
  verdict text COLLATE "C" NOT NULL
  from_index bigint NOT NULL
  size bigint NOT NULL
  root bytea NOT NULL
  result jsonb NOT NULL
  CONSTRAINT verifications_pkey PRIMARY KEY (tenant_id, id)
  CONSTRAINT verifications_verdict_check CHECK ((verdict = ANY (ARRAY['intact'::text, 'tampered'::text, 'unverifiable'::text])))
  CREATE INDEX verifications_finished_idx ON audit.verifications USING btree (tenant_id, finished_at)
  POLICY verifications_seal PERMISSIVE FOR ALL TO waybill_sealer USING true WITH CHECK true
  POLICY verifications_tenant PERMISSIVE FOR SELECT TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER verifications_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit.verifications FOR EACH STATEMENT EXECUTE FUNCTION audit.refuse_change() -- ALWAYS
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_owner
  GRANT INSERT, SELECT TO waybill_sealer

TABLE waybill.api_keys OWNER waybill_owner ROW LEVEL SECURITY FORCED
  tenant_id bigint NOT NULL
  id uuid NOT NULL
  user_id uuid NOT NULL
  prefix text COLLATE "C" NOT NULL
  hash bytea NOT NULL
  created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  expires_at timestamp with time zone
  revoked_at timestamp with time zone
  last_used_at timestamp with time zone
  name text NOT NULL DEFAULT 'unnamed'::text
  CONSTRAINT api_keys_hash_length CHECK ((octet_length(hash) = 32))
  CONSTRAINT api_keys_name_length CHECK (((length(name) >= 1) AND (length(name) <= 100)))
  CONSTRAINT api_keys_pkey PRIMARY KEY (tenant_id, id)
  CONSTRAINT api_keys_prefix_key UNIQUE (tenant_id, prefix)
  CONSTRAINT api_keys_user_fkey FOREIGN KEY (tenant_id, user_id) REFERENCES waybill.users(tenant_id, id)
  CREATE INDEX api_keys_user_idx ON waybill.api_keys USING btree (tenant_id, user_id)
  POLICY api_keys_tenant PERMISSIVE FOR ALL TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint) WITH CHECK (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER api_keys_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.api_keys FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context()
  CREATE TRIGGER api_keys_00_no_delete BEFORE DELETE OR TRUNCATE ON waybill.api_keys FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('disable or revoke instead: history refers to this row')
  CREATE TRIGGER api_keys_10_identity BEFORE UPDATE ON waybill.api_keys FOR EACH ROW WHEN ((((((new.tenant_id IS DISTINCT FROM old.tenant_id) OR (new.id IS DISTINCT FROM old.id)) OR (new.user_id IS DISTINCT FROM old.user_id)) OR (new.prefix IS DISTINCT FROM old.prefix)) OR (new.hash IS DISTINCT FROM old.hash))) EXECUTE FUNCTION waybill.refuse_change('a key is revoked and replaced, never rewritten')
  CREATE TRIGGER api_keys_10_revoked BEFORE UPDATE ON waybill.api_keys FOR EACH ROW WHEN (((old.revoked_at IS NOT NULL) AND (new.revoked_at IS DISTINCT FROM old.revoked_at))) EXECUTE FUNCTION waybill.refuse_change('a revoked key stays revoked')
  GRANT SELECT TO waybill_app

TABLE waybill.idempotency_keys OWNER waybill_owner ROW LEVEL SECURITY FORCED
  -- What was answered under an Idempotency-Key. A row of a request whose effects are all in this database is never seen as processing: key, effect and answer are committed together.
  tenant_id bigint NOT NULL
  idempotency_key text COLLATE "C" NOT NULL
  request_hash bytea NOT NULL
  status text COLLATE "C" NOT NULL
  lease_token uuid
  lease_until timestamp with time zone -- While a worker is away on a call to another system the key is its own until then; afterwards another may take it over.
  attempt integer NOT NULL DEFAULT 1
  call_started_at timestamp with time zone
  provider_ref text
  resource text COLLATE "C" -- What the answer shows, such as order/<id>: erasing a person blanks the answers that show their orders.
  response_status smallint
  response_headers jsonb
  response_body bytea -- The bytes as they were sent; empty for an answer without a body, null once they were erased.
  created_at timestamp with time zone NOT NULL
  expires_at timestamp with time zone
  CONSTRAINT idempotency_keys_answer_final CHECK (
  CASE
      WHEN (status = 'processing'::text) THEN (num_nonnulls(response_status, response_headers, response_body, expires_at) = 0)
      ELSE (num_nulls(response_status, response_headers, expires_at) = 0)
  END)
  CONSTRAINT idempotency_keys_answer_kind CHECK ((((status <> 'completed'::text) OR ((response_status >= 200) AND (response_status <= 299))) AND ((status <> 'failed'::text) OR ((response_status >= 400) AND (response_status <= 499)))))
  CONSTRAINT idempotency_keys_attempt_positive CHECK ((attempt >= 1))
  CONSTRAINT idempotency_keys_call_leased CHECK (((call_started_at IS NULL) OR (lease_token IS NOT NULL) OR (status <> 'processing'::text)))
  CONSTRAINT idempotency_keys_hash_length CHECK ((octet_length(request_hash) = 32))
  CONSTRAINT idempotency_keys_headers_object CHECK ((jsonb_typeof(response_headers) = 'object'::text))
  CONSTRAINT idempotency_keys_key_format CHECK ((idempotency_key ~ '^[\x21-\x2b\x2d-\x7e]{1,255}$'::text))
  CONSTRAINT idempotency_keys_lease_processing CHECK (((lease_token IS NULL) OR (status = 'processing'::text)))
  CONSTRAINT idempotency_keys_lease_whole CHECK (((lease_token IS NULL) = (lease_until IS NULL)))
  CONSTRAINT idempotency_keys_pkey PRIMARY KEY (tenant_id, idempotency_key)
  CONSTRAINT idempotency_keys_status_check CHECK ((status = ANY (ARRAY['processing'::text, 'completed'::text, 'failed'::text])))
  CREATE INDEX idempotency_keys_expires_idx ON waybill.idempotency_keys USING btree (tenant_id, expires_at) WHERE (status <> 'processing'::text)
  CREATE INDEX idempotency_keys_leases_idx ON waybill.idempotency_keys USING btree (tenant_id, lease_until) WHERE (lease_token IS NOT NULL)
  POLICY idempotency_keys_tenant PERMISSIVE FOR ALL TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint) WITH CHECK (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER idempotency_keys_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.idempotency_keys FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context()
  CREATE TRIGGER idempotency_keys_00_no_truncate BEFORE TRUNCATE ON waybill.idempotency_keys FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('without its keys a retry would do everything twice')
  CREATE TRIGGER idempotency_keys_10_expired BEFORE DELETE ON waybill.idempotency_keys FOR EACH ROW WHEN (((old.status = 'processing'::text) OR (old.expires_at > clock_timestamp()))) EXECUTE FUNCTION waybill.refuse_change('only finished keys that have expired are swept')
  CREATE TRIGGER idempotency_keys_10_identity BEFORE UPDATE ON waybill.idempotency_keys FOR EACH ROW WHEN (((new.tenant_id IS DISTINCT FROM old.tenant_id) OR (new.idempotency_key IS DISTINCT FROM old.idempotency_key))) EXECUTE FUNCTION waybill.refuse_change('a key stays with its tenant')
  GRANT SELECT TO waybill_app

TABLE waybill.idempotency_policies OWNER waybill_owner ROW LEVEL SECURITY FORCED
  -- How long a tenant's keys are remembered, counted from the answer; null is for ever. A tenant without a row has the service's IDEMPOTENCY_TTL.
  tenant_id bigint NOT NULL
  ttl interval
  CONSTRAINT idempotency_policies_pkey PRIMARY KEY (tenant_id)
  CONSTRAINT idempotency_policies_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES waybill.tenants(id)
  CONSTRAINT idempotency_policies_ttl_positive CHECK ((ttl > '00:00:00'::interval))
  POLICY idempotency_policies_tenant PERMISSIVE FOR ALL TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint) WITH CHECK (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER idempotency_policies_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.idempotency_policies FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context()
  CREATE TRIGGER idempotency_policies_00_no_truncate BEFORE TRUNCATE ON waybill.idempotency_policies FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('without its keys a retry would do everything twice')
  GRANT SELECT TO waybill_app

TABLE waybill.machines OWNER waybill_owner
  machine text COLLATE "C" NOT NULL
  entity_table text NOT NULL -- The table whose column status this machine rules; add_state rebuilds its CHECK.
  initial_state text COLLATE "C" NOT NULL
  CONSTRAINT machines_name_format CHECK ((machine ~ '^[a-z][a-z0-9_]{0,62}$'::text))
  CONSTRAINT machines_pkey PRIMARY KEY (machine)
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_audit
  GRANT SELECT TO waybill_sealer

TABLE waybill.order_contacts OWNER waybill_owner ROW LEVEL SECURITY FORCED
  -- All personal data of orders: a row for each field group and the order's version that set it; the JSON value null takes a group away.
  tenant_id bigint NOT NULL
  order_id uuid NOT NULL
  field text COLLATE "C" NOT NULL
  version integer NOT NULL
  salt bytea NOT NULL
  value text NOT NULL
  CONSTRAINT order_contacts_field_check CHECK ((field = ANY (ARRAY['customer'::text, 'shippingAddress'::text, 'billingAddress'::text])))
  CONSTRAINT order_contacts_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders(tenant_id, id)
  CONSTRAINT order_contacts_pkey PRIMARY KEY (tenant_id, order_id, field, version)
  CONSTRAINT order_contacts_salt_length CHECK ((octet_length(salt) = 32))
  CONSTRAINT order_contacts_value_object CHECK (((jsonb_typeof((value)::jsonb) = ANY (ARRAY['object'::text, 'null'::text])) AND (length(value) <= 16384)))
  CONSTRAINT order_contacts_version_positive CHECK ((version >= 1))
  POLICY order_contacts_tenant PERMISSIVE FOR ALL TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint) WITH CHECK (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER order_contacts_00_append_only BEFORE UPDATE OR TRUNCATE ON waybill.order_contacts FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('contacts are kept in versions: waybill.patch_order adds one') -- ALWAYS
  CREATE TRIGGER order_contacts_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.order_contacts FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context()
  CREATE TRIGGER order_contacts_00_erasure BEFORE DELETE ON waybill.order_contacts FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_unless_audit('contacts go only by audit.erase_customer, which leaves an event') -- ALWAYS
  GRANT SELECT TO waybill_app
  GRANT DELETE, SELECT TO waybill_audit

TABLE waybill.order_lines OWNER waybill_owner ROW LEVEL SECURITY FORCED
  tenant_id bigint NOT NULL
  order_id uuid NOT NULL
  line_no smallint NOT NULL
  sku text NOT NULL
  name text NOT NULL
  quantity bigint NOT NULL
  unit_price bigint NOT NULL
  discount bigint NOT NULL
  tax_rate_ppm bigint NOT NULL
  tax bigint NOT NULL
  total bigint NOT NULL
  shipped_quantity bigint NOT NULL DEFAULT 0
  CONSTRAINT order_lines_amount_range CHECK (((quantity * unit_price) <= '9000000000000'::bigint))
  CONSTRAINT order_lines_discount_range CHECK (((discount >= 0) AND (discount <= (quantity * unit_price))))
  CONSTRAINT order_lines_line_no_range CHECK (((line_no >= 1) AND (line_no <= 250)))
  CONSTRAINT order_lines_name_length CHECK (((length(name) >= 1) AND (length(name) <= 300)))
  CONSTRAINT order_lines_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders(tenant_id, id)
  CONSTRAINT order_lines_pkey PRIMARY KEY (tenant_id, order_id, line_no)
  CONSTRAINT order_lines_quantity_range CHECK (((quantity >= 1) AND (quantity <= 1000000)))
  CONSTRAINT order_lines_shipped_range CHECK (((shipped_quantity >= 0) AND (shipped_quantity <= quantity)))
  CONSTRAINT order_lines_sku_length CHECK (((length(sku) >= 1) AND (length(sku) <= 100)))
  CONSTRAINT order_lines_tax_half_up CHECK ((tax = (((((quantity * unit_price) - discount) * tax_rate_ppm) + 500000) / 1000000)))
  CONSTRAINT order_lines_tax_rate_range CHECK (((tax_rate_ppm >= 0) AND (tax_rate_ppm <= 1000000)))
  CONSTRAINT order_lines_total_adds_up CHECK ((total = (((quantity * unit_price) - discount) + tax)))
  CONSTRAINT order_lines_unit_price_range CHECK (((unit_price >= 0) AND (unit_price <= '9000000000000'::bigint)))
  POLICY order_lines_tenant PERMISSIVE FOR ALL TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint) WITH CHECK (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER order_lines_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.order_lines FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context()
  CREATE TRIGGER order_lines_00_no_truncate BEFORE TRUNCATE ON waybill.order_lines FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('lines belong to their order')
  CREATE TRIGGER order_lines_10_identity BEFORE UPDATE ON waybill.order_lines FOR EACH ROW WHEN ((((new.tenant_id IS DISTINCT FROM old.tenant_id) OR (new.order_id IS DISTINCT FROM old.order_id)) OR (new.line_no IS DISTINCT FROM old.line_no))) EXECUTE FUNCTION waybill.refuse_change('a line stays in its order and place')
  CREATE TRIGGER order_lines_20_fixed_delete BEFORE DELETE ON waybill.order_lines FOR EACH ROW EXECUTE FUNCTION waybill.guard_order_lines()
  CREATE TRIGGER order_lines_20_fixed_update BEFORE UPDATE ON waybill.order_lines FOR EACH ROW WHEN (((((((((new.sku IS DISTINCT FROM old.sku) OR (new.name IS DISTINCT FROM old.name)) OR (new.quantity IS DISTINCT FROM old.quantity)) OR (new.unit_price IS DISTINCT FROM old.unit_price)) OR (new.discount IS DISTINCT FROM old.discount)) OR (new.tax_rate_ppm IS DISTINCT FROM old.tax_rate_ppm)) OR (new.tax IS DISTINCT FROM old.tax)) OR (new.total IS DISTINCT FROM old.total))) EXECUTE FUNCTION waybill.guard_order_lines()
  CREATE TRIGGER order_lines_40_adds_up_delete AFTER DELETE ON waybill.order_lines REFERENCING OLD TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION waybill.written_lines_add_up()
  CREATE TRIGGER order_lines_40_adds_up_insert AFTER INSERT ON waybill.order_lines REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION waybill.written_lines_add_up()
  CREATE TRIGGER order_lines_40_adds_up_update AFTER UPDATE ON waybill.order_lines REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION waybill.written_lines_add_up()
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_audit

TABLE waybill.order_status_history OWNER waybill_owner ROW LEVEL SECURITY FORCED
  tenant_id bigint NOT NULL
  order_id uuid NOT NULL
  seq integer NOT NULL
  from_status text COLLATE "C"
  to_status text COLLATE "C" NOT NULL
  changed_by uuid NOT NULL
  changed_at timestamp with time zone NOT NULL
  reason text
  request_id text
  CONSTRAINT order_status_history_begins CHECK (((seq = 1) = (from_status IS NULL)))
  CONSTRAINT order_status_history_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders(tenant_id, id)
  CONSTRAINT order_status_history_pkey PRIMARY KEY (tenant_id, order_id, seq)
  CONSTRAINT order_status_history_reason_length CHECK (((length(reason) >= 1) AND (length(reason) <= 500)))
  CONSTRAINT order_status_history_user_fkey FOREIGN KEY (tenant_id, changed_by) REFERENCES waybill.users(tenant_id, id)
  POLICY order_status_history_tenant PERMISSIVE FOR ALL TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint) WITH CHECK (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER order_status_history_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON waybill.order_status_history FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('history is append-only') -- ALWAYS
  CREATE TRIGGER order_status_history_00_by_trigger BEFORE INSERT ON waybill.order_status_history FOR EACH ROW WHEN ((pg_trigger_depth() < 1)) EXECUTE FUNCTION waybill.refuse_change('history is written by the triggers of orders; change the order')
  CREATE TRIGGER order_status_history_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.order_status_history FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context()
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_audit

TABLE waybill.orders OWNER waybill_owner ROW LEVEL SECURITY FORCED
  tenant_id bigint NOT NULL
  id uuid NOT NULL
  number text COLLATE "C" NOT NULL
  channel text COLLATE "C" NOT NULL
  external_ref text COLLATE "C"
  customer_ref text COLLATE "C" NOT NULL
  status text COLLATE "C" NOT NULL
  version integer NOT NULL DEFAULT 1
  currency text COLLATE "C" NOT NULL
  subtotal bigint NOT NULL
  discount bigint NOT NULL
  tax bigint NOT NULL
  shipping bigint NOT NULL
  total bigint NOT NULL
  metadata jsonb NOT NULL DEFAULT '{}'::jsonb
  placed_at timestamp with time zone NOT NULL DEFAULT statement_timestamp()
  updated_at timestamp with time zone NOT NULL DEFAULT statement_timestamp()
  transition_reason text -- An argument of an UPDATE that changes status: a trigger hands it to the history and empties it.
  CONSTRAINT orders_amounts_range CHECK ((((subtotal >= 0) AND (subtotal <= '9007199254740991'::bigint)) AND ((discount >= 0) AND (discount <= '9007199254740991'::bigint)) AND ((tax >= 0) AND (tax <= '9007199254740991'::bigint)) AND ((shipping >= 0) AND (shipping <= '9007199254740991'::bigint)) AND ((total >= 0) AND (total <= '9007199254740991'::bigint))))
  CONSTRAINT orders_channel_format CHECK ((channel ~ '^[a-z0-9][a-z0-9_.-]{0,31}$'::text))
  CONSTRAINT orders_currency_format CHECK ((currency ~ '^[A-Z]{3}$'::text))
  CONSTRAINT orders_customer_ref_length CHECK (((length(customer_ref) >= 1) AND (length(customer_ref) <= 100)))
  CONSTRAINT orders_external_ref_key UNIQUE (tenant_id, external_ref, channel)
  CONSTRAINT orders_external_ref_length CHECK (((length(external_ref) >= 1) AND (length(external_ref) <= 100)))
  CONSTRAINT orders_metadata_object CHECK (((jsonb_typeof(metadata) = 'object'::text) AND (pg_column_size(metadata) <= 131072)))
  CONSTRAINT orders_number_format CHECK ((number ~ '^[0-9A-Z][0-9A-Z-]{3,23}$'::text))
  CONSTRAINT orders_number_key UNIQUE (tenant_id, number)
  CONSTRAINT orders_pkey PRIMARY KEY (tenant_id, id)
  CONSTRAINT orders_status_check CHECK ((status = ANY (ARRAY['pending'::text, 'confirmed'::text, 'shipped'::text, 'delivered'::text, 'canceled'::text])))
  CONSTRAINT orders_total_adds_up CHECK ((total = (((subtotal - discount) + tax) + shipping)))
  CONSTRAINT orders_transition_reason_passes CHECK ((transition_reason IS NULL))
  CONSTRAINT orders_version_positive CHECK ((version >= 1))
  CREATE INDEX orders_channel_placed_idx ON waybill.orders USING btree (tenant_id, channel, placed_at, id)
  CREATE INDEX orders_customer_placed_idx ON waybill.orders USING btree (tenant_id, customer_ref, placed_at, id)
  CREATE INDEX orders_placed_idx ON waybill.orders USING btree (tenant_id, placed_at, id)
  CREATE INDEX orders_status_placed_idx ON waybill.orders USING btree (tenant_id, status, placed_at, id)
  CREATE INDEX orders_updated_idx ON waybill.orders USING btree (tenant_id, updated_at, id)
  POLICY orders_tenant PERMISSIVE FOR ALL TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint) WITH CHECK (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER orders_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.orders FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context()
  CREATE TRIGGER orders_00_no_delete BEFORE DELETE OR TRUNCATE ON waybill.orders FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('an order is canceled, never deleted')
  CREATE TRIGGER orders_10_identity BEFORE UPDATE ON waybill.orders FOR EACH ROW WHEN (((((((((new.tenant_id IS DISTINCT FROM old.tenant_id) OR (new.id IS DISTINCT FROM old.id)) OR (new.number IS DISTINCT FROM old.number)) OR (new.channel IS DISTINCT FROM old.channel)) OR (new.external_ref IS DISTINCT FROM old.external_ref)) OR (new.customer_ref IS DISTINCT FROM old.customer_ref)) OR (new.currency IS DISTINCT FROM old.currency)) OR (new.placed_at IS DISTINCT FROM old.placed_at))) EXECUTE FUNCTION waybill.refuse_change('tenant, id, number, channel, external_ref, customer_ref, currency and placed_at of an order never change')
  CREATE TRIGGER orders_10_insert BEFORE INSERT ON waybill.orders FOR EACH ROW EXECUTE FUNCTION waybill.guard_insert('order')
  CREATE TRIGGER orders_10_money BEFORE UPDATE ON waybill.orders FOR EACH ROW WHEN (((old.status <> 'pending'::text) AND (((((new.subtotal IS DISTINCT FROM old.subtotal) OR (new.discount IS DISTINCT FROM old.discount)) OR (new.tax IS DISTINCT FROM old.tax)) OR (new.shipping IS DISTINCT FROM old.shipping)) OR (new.total IS DISTINCT FROM old.total)))) EXECUTE FUNCTION waybill.refuse_change('the amounts of an order are fixed once it is no longer pending')
  CREATE TRIGGER orders_20_update BEFORE UPDATE ON waybill.orders FOR EACH ROW EXECUTE FUNCTION waybill.guard_update('order', 'waybill.order_status_history', 'order_id')
  CREATE TRIGGER orders_25_paying BEFORE UPDATE ON waybill.orders FOR EACH ROW WHEN ((((new.status = 'canceled'::text) AND (old.status <> 'canceled'::text)) OR (new.total <> old.total))) EXECUTE FUNCTION waybill.refuse_while_paying()
  CREATE TRIGGER orders_30_history AFTER INSERT ON waybill.orders FOR EACH ROW EXECUTE FUNCTION waybill.begin_history('waybill.order_status_history', 'order_id')
  CREATE TRIGGER orders_40_adds_up_insert AFTER INSERT ON waybill.orders FOR EACH ROW EXECUTE FUNCTION waybill.order_adds_up()
  CREATE TRIGGER orders_40_adds_up_update AFTER UPDATE ON waybill.orders FOR EACH ROW WHEN (((((new.subtotal IS DISTINCT FROM old.subtotal) OR (new.discount IS DISTINCT FROM old.discount)) OR (new.tax IS DISTINCT FROM old.tax)) OR ((new.total - new.shipping) IS DISTINCT FROM (old.total - old.shipping)))) EXECUTE FUNCTION waybill.order_adds_up()
  CREATE TRIGGER orders_50_event_erasure AFTER UPDATE ON waybill.orders FOR EACH ROW WHEN (((new.version IS DISTINCT FROM old.version) AND (CURRENT_USER = 'waybill_audit'::name))) EXECUTE FUNCTION audit.record_change('order', 'waybill.order_snapshot', 'waybill.order_status_history', 'order_id', 'customer.erased')
  CREATE TRIGGER orders_50_event_insert AFTER INSERT ON waybill.orders FOR EACH ROW EXECUTE FUNCTION audit.record_change('order', 'waybill.order_snapshot', 'waybill.order_status_history', 'order_id')
  CREATE TRIGGER orders_50_event_update AFTER UPDATE ON waybill.orders FOR EACH ROW WHEN (((new.version IS DISTINCT FROM old.version) AND (CURRENT_USER <> 'waybill_audit'::name))) EXECUTE FUNCTION audit.record_change('order', 'waybill.order_snapshot', 'waybill.order_status_history', 'order_id')
  GRANT INSERT, SELECT, UPDATE TO waybill_app
  GRANT SELECT TO waybill_audit
  GRANT UPDATE (version) TO waybill_audit

TABLE waybill.payment_attempts OWNER waybill_owner ROW LEVEL SECURITY FORCED
  -- One row for each thing that is asked of a provider: enough to ask again under the same key, without the client.
  tenant_id bigint NOT NULL
  id uuid NOT NULL
  payment_id uuid NOT NULL
  refund_id uuid
  operation text COLLATE "C" NOT NULL
  status text COLLATE "C" NOT NULL DEFAULT 'processing'::text
  provider_key text COLLATE "C" NOT NULL
  payment_method text COLLATE "C"
  amount bigint NOT NULL
  tax bigint NOT NULL
  decline_code text COLLATE "C"
  started_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  settled_at timestamp with time zone
  CONSTRAINT payment_attempts_amount_range CHECK ((((amount >= 1) AND (amount <= '9007199254740991'::bigint)) AND ((tax >= 0) AND (tax <= amount))))
  CONSTRAINT payment_attempts_method_given CHECK (((operation = 'authorize'::text) = (payment_method IS NOT NULL)))
  CONSTRAINT payment_attempts_method_length CHECK (((length(payment_method) >= 1) AND (length(payment_method) <= 255)))
  CONSTRAINT payment_attempts_operation_check CHECK ((operation = ANY (ARRAY['authorize'::text, 'capture'::text, 'void'::text, 'refund'::text])))
  CONSTRAINT payment_attempts_payment_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES waybill.payments(tenant_id, id)
  CONSTRAINT payment_attempts_pkey PRIMARY KEY (tenant_id, id)
  CONSTRAINT payment_attempts_provider_key_format CHECK ((provider_key ~ '^[0-9a-f]{64}$'::text))
  CONSTRAINT payment_attempts_provider_key_key UNIQUE (tenant_id, provider_key)
  CONSTRAINT payment_attempts_refund_fkey FOREIGN KEY (tenant_id, refund_id) REFERENCES waybill.refunds(tenant_id, id)
  CONSTRAINT payment_attempts_refund_given CHECK (((operation = 'refund'::text) = (refund_id IS NOT NULL)))
  CONSTRAINT payment_attempts_settled CHECK (((status = ANY (ARRAY['succeeded'::text, 'refused'::text])) = (settled_at IS NOT NULL)))
  CONSTRAINT payment_attempts_status_check CHECK ((status = ANY (ARRAY['processing'::text, 'succeeded'::text, 'refused'::text, 'needs_reconciliation'::text])))
  CREATE INDEX payment_attempts_refund_idx ON waybill.payment_attempts USING btree (tenant_id, refund_id) WHERE (refund_id IS NOT NULL)
  CREATE UNIQUE INDEX payment_attempts_pending_key ON waybill.payment_attempts USING btree (tenant_id, payment_id) WHERE ((refund_id IS NULL) AND (status = ANY (ARRAY['processing'::text, 'needs_reconciliation'::text])))
  POLICY payment_attempts_tenant PERMISSIVE FOR ALL TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint) WITH CHECK (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER payment_attempts_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.payment_attempts FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context()
  CREATE TRIGGER payment_attempts_00_no_delete BEFORE DELETE OR TRUNCATE ON waybill.payment_attempts FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('what was asked of a provider stays on record')
  CREATE TRIGGER payment_attempts_10_identity BEFORE UPDATE ON waybill.payment_attempts FOR EACH ROW WHEN (((old.settled_at IS NOT NULL) OR ((((((((((new.tenant_id IS DISTINCT FROM old.tenant_id) OR (new.id IS DISTINCT FROM old.id)) OR (new.payment_id IS DISTINCT FROM old.payment_id)) OR (new.refund_id IS DISTINCT FROM old.refund_id)) OR (new.operation IS DISTINCT FROM old.operation)) OR (new.provider_key IS DISTINCT FROM old.provider_key)) OR (new.payment_method IS DISTINCT FROM old.payment_method)) OR (new.amount IS DISTINCT FROM old.amount)) OR (new.tax IS DISTINCT FROM old.tax)) OR (new.started_at IS DISTINCT FROM old.started_at)))) EXECUTE FUNCTION waybill.refuse_change('an attempt keeps what it asked for, and its result once there is one')
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_audit

TABLE waybill.payment_status_history OWNER waybill_owner ROW LEVEL SECURITY FORCED
  tenant_id bigint NOT NULL
  payment_id uuid NOT NULL
  seq integer NOT NULL
  from_status text COLLATE "C"
  to_status text COLLATE "C" NOT NULL
  changed_by uuid NOT NULL
  changed_at timestamp with time zone NOT NULL
  reason text
  request_id text
  CONSTRAINT payment_status_history_begins CHECK (((seq = 1) = (from_status IS NULL)))
  CONSTRAINT payment_status_history_payment_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES waybill.payments(tenant_id, id)
  CONSTRAINT payment_status_history_pkey PRIMARY KEY (tenant_id, payment_id, seq)
  CONSTRAINT payment_status_history_reason_length CHECK (((length(reason) >= 1) AND (length(reason) <= 500)))
  CONSTRAINT payment_status_history_user_fkey FOREIGN KEY (tenant_id, changed_by) REFERENCES waybill.users(tenant_id, id)
  POLICY payment_status_history_tenant PERMISSIVE FOR ALL TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint) WITH CHECK (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER payment_status_history_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON waybill.payment_status_history FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('history is append-only')
  CREATE TRIGGER payment_status_history_00_by_trigger BEFORE INSERT ON waybill.payment_status_history FOR EACH ROW WHEN ((pg_trigger_depth() < 1)) EXECUTE FUNCTION waybill.refuse_change('history is written by the triggers of payments; change the payment')
  CREATE TRIGGER payment_status_history_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.payment_status_history FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context()
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_audit

TABLE waybill.payment_webhook_events OWNER waybill_owner ROW LEVEL SECURITY FORCED
  tenant_id bigint NOT NULL
  provider text COLLATE "C" NOT NULL
  event text COLLATE "C" NOT NULL
  type text COLLATE "C" NOT NULL
  payment_id uuid
  outcome text COLLATE "C" NOT NULL
  digest bytea NOT NULL -- SHA-256 of the body. The body itself may hold personal data and can be read at the provider by its event id.
  received_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  CONSTRAINT payment_webhook_events_digest_length CHECK ((octet_length(digest) = 32))
  CONSTRAINT payment_webhook_events_event_length CHECK (((length(event) >= 1) AND (length(event) <= 255)))
  CONSTRAINT payment_webhook_events_outcome_check CHECK ((outcome = ANY (ARRAY['applied'::text, 'nothing-to-do'::text, 'unknown'::text])))
  CONSTRAINT payment_webhook_events_pkey PRIMARY KEY (tenant_id, provider, event)
  CONSTRAINT payment_webhook_events_type_length CHECK (((length(type) >= 1) AND (length(type) <= 255)))
  POLICY payment_webhook_events_tenant PERMISSIVE FOR ALL TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint) WITH CHECK (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER payment_webhook_events_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON waybill.payment_webhook_events FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('events of providers are kept as they came')
  CREATE TRIGGER payment_webhook_events_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.payment_webhook_events FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context()
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_audit

TABLE waybill.payments OWNER waybill_owner ROW LEVEL SECURITY FORCED
  tenant_id bigint NOT NULL
  id uuid NOT NULL
  order_id uuid NOT NULL
  provider text COLLATE "C" NOT NULL
  provider_ref text COLLATE "C"
  status text COLLATE "C" NOT NULL
  version integer NOT NULL DEFAULT 1
  currency text COLLATE "C" NOT NULL
  amount bigint NOT NULL
  tax bigint NOT NULL
  authorized bigint NOT NULL DEFAULT 0
  captured bigint NOT NULL DEFAULT 0
  captured_tax bigint NOT NULL DEFAULT 0
  refunding bigint NOT NULL DEFAULT 0 -- Promised to refunds that are under way; what is left to refund is captured - refunded - refunding.
  refunding_tax bigint NOT NULL DEFAULT 0
  refunded bigint NOT NULL DEFAULT 0
  refunded_tax bigint NOT NULL DEFAULT 0
  decline_code text COLLATE "C"
  created_at timestamp with time zone NOT NULL DEFAULT statement_timestamp()
  updated_at timestamp with time zone NOT NULL DEFAULT statement_timestamp()
  transition_reason text
  CONSTRAINT payments_amount_range CHECK ((((amount >= 1) AND (amount <= '9007199254740991'::bigint)) AND ((tax >= 0) AND (tax <= amount))))
  CONSTRAINT payments_authorized_within_amount CHECK (((authorized >= 0) AND (authorized <= amount)))
  CONSTRAINT payments_captured_within_authorized CHECK ((((captured >= 0) AND (captured <= authorized)) AND ((captured_tax >= 0) AND (captured_tax <= tax)) AND (((captured - captured_tax) >= 0) AND ((captured - captured_tax) <= (amount - tax)))))
  CONSTRAINT payments_currency_format CHECK ((currency ~ '^[A-Z]{3}$'::text))
  CONSTRAINT payments_decline_code_length CHECK (((length(decline_code) >= 1) AND (length(decline_code) <= 100)))
  CONSTRAINT payments_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders(tenant_id, id)
  CONSTRAINT payments_pkey PRIMARY KEY (tenant_id, id)
  CONSTRAINT payments_provider_format CHECK ((provider ~ '^[a-z][a-z0-9_-]{0,31}$'::text))
  CONSTRAINT payments_provider_ref_key UNIQUE (tenant_id, provider, provider_ref)
  CONSTRAINT payments_provider_ref_length CHECK (((length(provider_ref) >= 1) AND (length(provider_ref) <= 255)))
  CONSTRAINT payments_refunded_within_captured CHECK (((refunded >= 0) AND (refunding >= 0) AND ((refunded + refunding) <= captured) AND (refunded_tax >= 0) AND (refunding_tax >= 0) AND ((refunded_tax + refunding_tax) <= captured_tax) AND (refunded >= refunded_tax) AND (refunding >= refunding_tax) AND (((refunded - refunded_tax) + (refunding - refunding_tax)) <= (captured - captured_tax))))
  CONSTRAINT payments_status_check CHECK ((status = ANY (ARRAY['processing'::text, 'authorized'::text, 'declined'::text, 'capturing'::text, 'captured'::text, 'voiding'::text, 'voided'::text, 'refunded'::text, 'needs_reconciliation'::text])))
  CONSTRAINT payments_transition_reason_passes CHECK ((transition_reason IS NULL))
  CONSTRAINT payments_version_positive CHECK ((version >= 1))
  CREATE UNIQUE INDEX payments_live_key ON waybill.payments USING btree (tenant_id, order_id) WHERE (status <> ALL (ARRAY['declined'::text, 'voided'::text, 'refunded'::text]))
  POLICY payments_tenant PERMISSIVE FOR ALL TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint) WITH CHECK (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER payments_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.payments FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context()
  CREATE TRIGGER payments_00_no_delete BEFORE DELETE OR TRUNCATE ON waybill.payments FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('money that moved is never forgotten')
  CREATE TRIGGER payments_10_identity BEFORE UPDATE ON waybill.payments FOR EACH ROW WHEN ((((((((((new.tenant_id IS DISTINCT FROM old.tenant_id) OR (new.id IS DISTINCT FROM old.id)) OR (new.order_id IS DISTINCT FROM old.order_id)) OR (new.provider IS DISTINCT FROM old.provider)) OR (new.currency IS DISTINCT FROM old.currency)) OR (new.amount IS DISTINCT FROM old.amount)) OR (new.tax IS DISTINCT FROM old.tax)) OR (new.created_at IS DISTINCT FROM old.created_at)) OR ((old.provider_ref IS NOT NULL) AND (new.provider_ref IS DISTINCT FROM old.provider_ref)))) EXECUTE FUNCTION waybill.refuse_change('tenant_id, id, order_id, provider, currency, amount, tax, created_at and a known provider_ref of a payment never change')
  CREATE TRIGGER payments_10_insert BEFORE INSERT ON waybill.payments FOR EACH ROW EXECUTE FUNCTION waybill.guard_insert('payment')
  CREATE TRIGGER payments_20_update BEFORE UPDATE ON waybill.payments FOR EACH ROW EXECUTE FUNCTION waybill.guard_update('payment', 'waybill.payment_status_history', 'payment_id')
  CREATE TRIGGER payments_30_history AFTER INSERT ON waybill.payments FOR EACH ROW EXECUTE FUNCTION waybill.begin_history('waybill.payment_status_history', 'payment_id')
  CREATE TRIGGER payments_50_event_insert AFTER INSERT ON waybill.payments FOR EACH ROW EXECUTE FUNCTION audit.record_change('payment', 'waybill.payment_snapshot', 'waybill.payment_status_history', 'payment_id')
  CREATE TRIGGER payments_50_event_update AFTER UPDATE ON waybill.payments FOR EACH ROW WHEN ((new.version IS DISTINCT FROM old.version)) EXECUTE FUNCTION audit.record_change('payment', 'waybill.payment_snapshot', 'waybill.payment_status_history', 'payment_id')
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_audit

TABLE waybill.refund_status_history OWNER waybill_owner ROW LEVEL SECURITY FORCED
  tenant_id bigint NOT NULL
  refund_id uuid NOT NULL
  seq integer NOT NULL
  from_status text COLLATE "C"
  to_status text COLLATE "C" NOT NULL
  changed_by uuid NOT NULL
  changed_at timestamp with time zone NOT NULL
  reason text
  request_id text
  CONSTRAINT refund_status_history_begins CHECK (((seq = 1) = (from_status IS NULL)))
  CONSTRAINT refund_status_history_pkey PRIMARY KEY (tenant_id, refund_id, seq)
  CONSTRAINT refund_status_history_reason_length CHECK (((length(reason) >= 1) AND (length(reason) <= 500)))
  CONSTRAINT refund_status_history_refund_fkey FOREIGN KEY (tenant_id, refund_id) REFERENCES waybill.refunds(tenant_id, id)
  CONSTRAINT refund_status_history_user_fkey FOREIGN KEY (tenant_id, changed_by) REFERENCES waybill.users(tenant_id, id)
  POLICY refund_status_history_tenant PERMISSIVE FOR ALL TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint) WITH CHECK (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER refund_status_history_00_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON waybill.refund_status_history FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('history is append-only')
  CREATE TRIGGER refund_status_history_00_by_trigger BEFORE INSERT ON waybill.refund_status_history FOR EACH ROW WHEN ((pg_trigger_depth() < 1)) EXECUTE FUNCTION waybill.refuse_change('history is written by the triggers of refunds; change the refund')
  CREATE TRIGGER refund_status_history_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.refund_status_history FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context()
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_audit

TABLE waybill.refunds OWNER waybill_owner ROW LEVEL SECURITY FORCED
  tenant_id bigint NOT NULL
  id uuid NOT NULL
  payment_id uuid NOT NULL
  status text COLLATE "C" NOT NULL
  version integer NOT NULL DEFAULT 1
  amount bigint NOT NULL
  tax bigint NOT NULL
  reason text
  provider_ref text COLLATE "C"
  decline_code text COLLATE "C"
  created_at timestamp with time zone NOT NULL DEFAULT statement_timestamp()
  updated_at timestamp with time zone NOT NULL DEFAULT statement_timestamp()
  transition_reason text
  CONSTRAINT refunds_amount_range CHECK ((((amount >= 1) AND (amount <= '9007199254740991'::bigint)) AND ((tax >= 0) AND (tax <= amount))))
  CONSTRAINT refunds_decline_code_length CHECK (((length(decline_code) >= 1) AND (length(decline_code) <= 100)))
  CONSTRAINT refunds_payment_fkey FOREIGN KEY (tenant_id, payment_id) REFERENCES waybill.payments(tenant_id, id)
  CONSTRAINT refunds_pkey PRIMARY KEY (tenant_id, id)
  CONSTRAINT refunds_provider_ref_length CHECK (((length(provider_ref) >= 1) AND (length(provider_ref) <= 255)))
  CONSTRAINT refunds_reason_length CHECK (((length(reason) >= 1) AND (length(reason) <= 500)))
  CONSTRAINT refunds_status_check CHECK ((status = ANY (ARRAY['processing'::text, 'succeeded'::text, 'failed'::text, 'needs_reconciliation'::text])))
  CONSTRAINT refunds_transition_reason_passes CHECK ((transition_reason IS NULL))
  CONSTRAINT refunds_version_positive CHECK ((version >= 1))
  CREATE INDEX refunds_payment_idx ON waybill.refunds USING btree (tenant_id, payment_id, created_at, id)
  POLICY refunds_tenant PERMISSIVE FOR ALL TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint) WITH CHECK (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER refunds_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.refunds FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context()
  CREATE TRIGGER refunds_00_no_delete BEFORE DELETE OR TRUNCATE ON waybill.refunds FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('money that moved is never forgotten')
  CREATE TRIGGER refunds_10_identity BEFORE UPDATE ON waybill.refunds FOR EACH ROW WHEN (((((((((new.tenant_id IS DISTINCT FROM old.tenant_id) OR (new.id IS DISTINCT FROM old.id)) OR (new.payment_id IS DISTINCT FROM old.payment_id)) OR (new.amount IS DISTINCT FROM old.amount)) OR (new.tax IS DISTINCT FROM old.tax)) OR (new.reason IS DISTINCT FROM old.reason)) OR (new.created_at IS DISTINCT FROM old.created_at)) OR ((old.provider_ref IS NOT NULL) AND (new.provider_ref IS DISTINCT FROM old.provider_ref)))) EXECUTE FUNCTION waybill.refuse_change('tenant_id, id, payment_id, amount, tax, reason, created_at and a known provider_ref of a refund never change')
  CREATE TRIGGER refunds_10_insert BEFORE INSERT ON waybill.refunds FOR EACH ROW EXECUTE FUNCTION waybill.guard_insert('refund')
  CREATE TRIGGER refunds_20_update BEFORE UPDATE ON waybill.refunds FOR EACH ROW EXECUTE FUNCTION waybill.guard_update('refund', 'waybill.refund_status_history', 'refund_id')
  CREATE TRIGGER refunds_30_history AFTER INSERT ON waybill.refunds FOR EACH ROW EXECUTE FUNCTION waybill.begin_history('waybill.refund_status_history', 'refund_id')
  CREATE TRIGGER refunds_50_event_insert AFTER INSERT ON waybill.refunds FOR EACH ROW EXECUTE FUNCTION audit.record_change('refund', 'waybill.refund_snapshot', 'waybill.refund_status_history', 'refund_id')
  CREATE TRIGGER refunds_50_event_update AFTER UPDATE ON waybill.refunds FOR EACH ROW WHEN ((new.version IS DISTINCT FROM old.version)) EXECUTE FUNCTION audit.record_change('refund', 'waybill.refund_snapshot', 'waybill.refund_status_history', 'refund_id')
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_audit

TABLE waybill.tenants OWNER waybill_owner ROW LEVEL SECURITY FORCED
  id bigint NOT NULL BY DEFAULT AS IDENTITY
  slug text COLLATE "C" NOT NULL
  name text NOT NULL
  created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  CONSTRAINT tenants_id_range CHECK (((id >= 1) AND (id <= '9007199254740991'::bigint)))
  CONSTRAINT tenants_name_length CHECK (((length(name) >= 1) AND (length(name) <= 200)))
  CONSTRAINT tenants_pkey PRIMARY KEY (id)
  CONSTRAINT tenants_slug_format CHECK ((slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'::text))
  CONSTRAINT tenants_slug_key UNIQUE (slug)
  CONSTRAINT tenants_slug_not_a_number CHECK ((slug !~ '^[0-9]+$'::text))
  POLICY tenants_all PERMISSIVE FOR ALL TO waybill_owner USING true WITH CHECK true
  POLICY tenants_own PERMISSIVE FOR SELECT TO waybill_app USING (id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  POLICY tenants_read PERMISSIVE FOR SELECT TO waybill_sealer USING true
  CREATE TRIGGER tenants_00_no_truncate BEFORE DELETE OR TRUNCATE ON waybill.tenants FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('a tenant''s history must outlive it')
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_sealer

TABLE waybill.users OWNER waybill_owner ROW LEVEL SECURITY FORCED
  tenant_id bigint NOT NULL
  id uuid NOT NULL
  subject text COLLATE "C" NOT NULL
  kind text NOT NULL
  display_name text NOT NULL
  roles text[] NOT NULL DEFAULT '{}'::text[]
  created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp()
  disabled_at timestamp with time zone
  CONSTRAINT users_display_name_length CHECK (((length(display_name) >= 1) AND (length(display_name) <= 200)))
  CONSTRAINT users_kind_check CHECK ((kind = ANY (ARRAY['human'::text, 'service'::text, 'system'::text])))
  CONSTRAINT users_pkey PRIMARY KEY (tenant_id, id)
  CONSTRAINT users_roles_format CHECK (((cardinality(roles) <= 50) AND ((cardinality(roles) = 0) OR (array_to_string(roles, ','::text, ''::text) ~ '^[a-z][a-z0-9_-]{0,62}(,[a-z][a-z0-9_-]{0,62})*$'::text))))
  CONSTRAINT users_subject_key UNIQUE (tenant_id, subject)
  CONSTRAINT users_subject_length CHECK (((length(subject) >= 1) AND (length(subject) <= 255)))
  CONSTRAINT users_system_role CHECK (((kind = 'system'::text) = ('system'::text = ANY (roles))))
  CONSTRAINT users_tenant_fkey FOREIGN KEY (tenant_id) REFERENCES waybill.tenants(id)
  CREATE UNIQUE INDEX users_system_key ON waybill.users USING btree (tenant_id) WHERE (kind = 'system'::text)
  POLICY users_tenant PERMISSIVE FOR ALL TO PUBLIC USING (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint) WITH CHECK (tenant_id = (NULLIF(current_setting('waybill.tenant_id'::text, true), ''::text))::bigint)
  CREATE TRIGGER users_00_context BEFORE INSERT OR DELETE OR UPDATE ON waybill.users FOR EACH STATEMENT EXECUTE FUNCTION waybill.require_context()
  CREATE TRIGGER users_00_no_delete BEFORE DELETE OR TRUNCATE ON waybill.users FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('disable or revoke instead: history refers to this row')
  CREATE TRIGGER users_10_identity BEFORE UPDATE ON waybill.users FOR EACH ROW WHEN (((((new.tenant_id IS DISTINCT FROM old.tenant_id) OR (new.id IS DISTINCT FROM old.id)) OR (new.subject IS DISTINCT FROM old.subject)) OR (new.kind IS DISTINCT FROM old.kind))) EXECUTE FUNCTION waybill.refuse_change('tenant, id, subject and kind of a user never change')
  GRANT SELECT TO waybill_app
  GRANT SELECT (tenant_id) TO waybill_audit
  GRANT SELECT (id) TO waybill_audit
  GRANT SELECT (subject) TO waybill_audit

TABLE waybill.valid_transitions OWNER waybill_owner
  machine text COLLATE "C" NOT NULL
  from_state text COLLATE "C" NOT NULL
  to_state text COLLATE "C" NOT NULL
  roles text[] NOT NULL
  requires_reason boolean NOT NULL DEFAULT false
  guards text[] NOT NULL DEFAULT '{}'::text[]
  CONSTRAINT valid_transitions_machine_fkey FOREIGN KEY (machine) REFERENCES waybill.machines(machine)
  CONSTRAINT valid_transitions_moves CHECK ((from_state <> to_state))
  CONSTRAINT valid_transitions_pkey PRIMARY KEY (machine, from_state, to_state)
  CONSTRAINT valid_transitions_state_format CHECK (((from_state ~ '^[a-z][a-z0-9_]{0,62}$'::text) AND (to_state ~ '^[a-z][a-z0-9_]{0,62}$'::text)))
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_audit
  GRANT SELECT TO waybill_sealer

-- Views -----------------------------------------------------------------------------------------------------------

VIEW audit.field_changes OWNER waybill_audit WITH (security_invoker=true)
   SELECT tenant_id,
      ((e.body)::jsonb ->> 'table'::text) AS table_name,
      split_part(e.stream, '/'::text, 2) AS record_id,
      version,
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
  GRANT SELECT TO waybill_app
  GRANT SELECT TO waybill_owner
  GRANT SELECT TO waybill_sealer

VIEW waybill.order_details OWNER waybill_owner WITH (security_invoker=true)
  -- An order as the API shows it.
   SELECT tenant_id,
      id,
      number,
      channel,
      external_ref,
      customer_ref,
      status,
      version,
      currency,
      subtotal,
      discount,
      tax,
      shipping,
      total,
      metadata,
      placed_at,
      updated_at,
      ( SELECT jsonb_agg(jsonb_build_object('lineNo', l.line_no, 'sku', l.sku, 'name', l.name, 'quantity', l.quantity, 'unitPrice', l.unit_price, 'discount', l.discount, 'taxRatePpm', l.tax_rate_ppm, 'tax', l.tax, 'total', l.total, 'shippedQuantity', l.shipped_quantity) ORDER BY l.line_no) AS jsonb_agg
             FROM waybill.order_lines l
            WHERE ((l.tenant_id = o.tenant_id) AND (l.order_id = o.id))) AS lines,
      ( SELECT jsonb_object_agg(c.field, (c.value)::jsonb) AS jsonb_object_agg
             FROM ( SELECT DISTINCT ON (order_contacts.field) order_contacts.field,
                      value
                     FROM waybill.order_contacts
                    WHERE ((order_contacts.tenant_id = o.tenant_id) AND (order_contacts.order_id = o.id))
                    ORDER BY order_contacts.field, order_contacts.version DESC) c) AS contacts,
      ( SELECT encode(e.event_hash, 'hex'::text) AS encode
             FROM audit.events e
            WHERE ((e.tenant_id = o.tenant_id) AND (e.stream = ('order/'::text || o.id)) AND (e.version = o.version))) AS event_hash
     FROM waybill.orders o;
  GRANT SELECT TO waybill_app

VIEW waybill.order_documents OWNER waybill_owner WITH (security_invoker=true)
  -- An order as the API shows it, for reading: lines as json, contacts as the text of their JSON.
   SELECT tenant_id,
      id,
      number,
      channel,
      external_ref,
      customer_ref,
      status,
      version,
      currency,
      subtotal,
      discount,
      tax,
      shipping,
      total,
      metadata,
      placed_at,
      updated_at,
      ( SELECT json_agg(row_to_json(r.*)) AS json_agg
             FROM ( SELECT l.sku,
                      tax,
                      name,
                      total,
                      l.line_no AS "lineNo",
                      discount,
                      quantity,
                      l.unit_price AS "unitPrice",
                      l.tax_rate_ppm AS "taxRatePpm",
                      l.shipped_quantity AS "shippedQuantity"
                     FROM waybill.order_lines l
                    WHERE ((l.tenant_id = d.tenant_id) AND (l.order_id = d.id))
                    ORDER BY l.line_no) r) AS lines,
      contacts,
      event_hash,
      customer,
      shipping_address,
      billing_address
     FROM (waybill.order_details d
       CROSS JOIN LATERAL ( SELECT max(latest.value) FILTER (WHERE (latest.field = 'customer'::text)) AS customer,
              max(latest.value) FILTER (WHERE (latest.field = 'shippingAddress'::text)) AS shipping_address,
              max(latest.value) FILTER (WHERE (latest.field = 'billingAddress'::text)) AS billing_address
             FROM ( SELECT DISTINCT ON (o.field) o.field,
                      value
                     FROM waybill.order_contacts o
                    WHERE ((o.tenant_id = d.tenant_id) AND (o.order_id = d.id))
                    ORDER BY o.field, o.version DESC) latest) c);
  GRANT SELECT TO waybill_app

VIEW waybill.payment_details OWNER waybill_owner WITH (security_invoker=true)
  -- A payment with its refunds, as the API shows it.
   SELECT tenant_id,
      id,
      order_id,
      provider,
      provider_ref,
      status,
      version,
      currency,
      amount,
      tax,
      authorized,
      captured,
      captured_tax,
      refunding,
      refunding_tax,
      refunded,
      refunded_tax,
      decline_code,
      created_at,
      updated_at,
      ( SELECT COALESCE(jsonb_agg((jsonb_build_object('id', r.id, 'paymentId', r.payment_id, 'providerRef', r.provider_ref, 'status', r.status, 'version', r.version, 'amount', r.amount, 'tax', r.tax, 'reason', r.reason, 'declineCode', r.decline_code, 'createdAt', to_char((r.created_at AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'::text), 'updatedAt', to_char((r.updated_at AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'::text)) || jsonb_build_object('eventHash', ( SELECT encode(e.event_hash, 'hex'::text) AS encode
                     FROM audit.events e
                    WHERE ((e.tenant_id = r.tenant_id) AND (e.stream = ('refund/'::text || r.id)) AND (e.version = r.version))))) ORDER BY r.created_at, r.id), '[]'::jsonb) AS "coalesce"
             FROM waybill.refunds r
            WHERE ((r.tenant_id = p.tenant_id) AND (r.payment_id = p.id))) AS refunds,
      ( SELECT encode(e.event_hash, 'hex'::text) AS encode
             FROM audit.events e
            WHERE ((e.tenant_id = p.tenant_id) AND (e.stream = ('payment/'::text || p.id)) AND (e.version = p.version))) AS event_hash
     FROM waybill.payments p;
  GRANT SELECT TO waybill_app

-- Sequences -------------------------------------------------------------------------------------------------------

SEQUENCE waybill.tenants_id_seq OWNER waybill_owner

-- Functions -------------------------------------------------------------------------------------------------------

FUNCTION audit.append OWNER waybill_audit
  -- Appends one event and queues it for sealing. Nobody but waybill_audit's own functions may execute it.
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
  $function$

FUNCTION audit.changes OWNER waybill_audit
  -- Field to {old, new} for the top-level members in which two snapshots differ; version and updatedAt always do and are left out.
  CREATE OR REPLACE FUNCTION audit.changes(p_old jsonb, p_new jsonb)
   RETURNS jsonb
   LANGUAGE plpgsql
   IMMUTABLE PARALLEL SAFE
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    RETURN (
      SELECT coalesce(jsonb_object_agg(key, jsonb_build_object('old', o.value, 'new', n.value)), '{}'::jsonb)
      FROM jsonb_each(p_old) o FULL JOIN jsonb_each(p_new) n USING (key)
      WHERE o.value IS DISTINCT FROM n.value AND key NOT IN ('version', 'updatedAt'));
  END
  $function$

FUNCTION audit.erase_contacts OWNER waybill_audit
  -- Deletes the contacts of orders in all their versions, with their salts, and appends customer.erased to each order's stream. For waybill.erase_customer.
  CREATE OR REPLACE FUNCTION audit.erase_contacts(p_tenant bigint, p_orders uuid[])
   RETURNS integer
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
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
  $function$
  GRANT EXECUTE TO waybill_owner

FUNCTION audit.event_hash OWNER waybill_audit
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
  $function$
  GRANT EXECUTE TO waybill_app
  GRANT EXECUTE TO waybill_owner
  GRANT EXECUTE TO waybill_sealer

FUNCTION audit.genesis_hash OWNER waybill_audit
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
  $function$
  GRANT EXECUTE TO waybill_app
  GRANT EXECUTE TO waybill_owner
  GRANT EXECUTE TO waybill_sealer

FUNCTION audit.pii_digest OWNER waybill_audit
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
  $function$
  GRANT EXECUTE TO waybill_owner

FUNCTION audit.record_change OWNER waybill_audit
  -- AFTER INSERT OR UPDATE … FOR EACH ROW, arguments: stream prefix, snapshot function(tenant, id), history table, its column for this entity, and, where it isn't <prefix>.updated, the type of a change that leaves the status. Appends one event.
  CREATE OR REPLACE FUNCTION audit.record_change()
   RETURNS trigger
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
   SET "TimeZone" TO 'UTC'
  AS $function$
  DECLARE
    v_stream text := TG_ARGV[0] || '/' || NEW.id;
    v_type text := TG_ARGV[0] || '.created';
    v_event_id uuid := gen_random_uuid();
    v_occurred_us bigint := extract(epoch FROM NEW.updated_at) * 1000000;
    v_actor uuid := current_setting('waybill.actor')::uuid;
    v_snapshot jsonb;
    v_changes jsonb;
    v_reason text;
    v_prev_hash bytea;
    v_prev_body text;
    v_body text;
  BEGIN
    IF TG_ARGV[1] = 'waybill.order_snapshot' THEN
      v_snapshot := waybill.order_snapshot(NEW.tenant_id, NEW.id);
    ELSE
      EXECUTE 'SELECT ' || TG_ARGV[1] || '($1, $2)' INTO STRICT v_snapshot USING NEW.tenant_id, NEW.id;
    END IF;
    IF TG_OP = 'INSERT' THEN
      v_prev_hash := audit.genesis_hash(NEW.tenant_id, v_stream);
    ELSE
      SELECT e.event_hash, e.body INTO STRICT v_prev_hash, v_prev_body FROM audit.events e
      WHERE e.tenant_id = NEW.tenant_id AND e.stream = v_stream AND e.version = NEW.version - 1;
      v_changes := audit.changes(v_prev_body::jsonb -> 'snapshot', v_snapshot);
      v_type := coalesce(TG_ARGV[4], TG_ARGV[0] || '.updated');
      IF NEW.status <> OLD.status THEN
        v_type := TG_ARGV[0] || '.' || NEW.status;
        IF TG_ARGV[2] = 'waybill.order_status_history' THEN
          SELECT h.reason INTO STRICT v_reason FROM waybill.order_status_history h
          WHERE h.tenant_id = NEW.tenant_id AND h.order_id = NEW.id ORDER BY h.seq DESC LIMIT 1;
        ELSE
          EXECUTE format('SELECT h.reason FROM %s h WHERE h.tenant_id = $1 AND h.%I = $2 ORDER BY h.seq DESC LIMIT 1',
                       TG_ARGV[2], TG_ARGV[3])
        INTO STRICT v_reason USING NEW.tenant_id, NEW.id;
        END IF;
      END IF;
    END IF;
    v_body := jsonb_build_object('table', TG_TABLE_NAME, 'reason', v_reason, 'changes', v_changes, 'snapshot', v_snapshot,
                                 'requestId', nullif(current_setting('waybill.request_id', true), ''))::text;
    PERFORM audit.append(NEW.tenant_id, v_event_id, v_stream, NEW.version, v_occurred_us, v_type, v_actor, v_body, v_prev_hash);
    RETURN NULL;
  END
  $function$
  GRANT EXECUTE TO waybill_owner

FUNCTION audit.record_log_event OWNER waybill_audit
  -- Appends an event about the log itself to the stream log/<tenant>, as the tenant's system user, and returns its version. For waybill_sealer, in the tenant's context.
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
    v_actor uuid;
    v_occurred_us bigint := extract(epoch FROM clock_timestamp()) * 1000000;
  BEGIN
    IF p_type NOT IN ('log.key-rotated', 'log.resumed') THEN
      RAISE EXCEPTION 'A log has no events of the type %', p_type USING ERRCODE = 'WB002';
    END IF;
    -- Whoever appends to the log holds its row, so this stream cannot fork either.
    PERFORM FROM audit.logs l WHERE l.tenant_id = p_tenant FOR UPDATE;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'Tenant % has no log in this context', p_tenant
        USING ERRCODE = 'WB001', HINT = 'First in the same transaction: SELECT waybill.set_context(tenant, NULL, …);';
    END IF;
    SELECT u.id INTO STRICT v_actor FROM waybill.users u WHERE u.tenant_id = p_tenant AND u.subject = 'system';
    SELECT e.* INTO v_last FROM audit.events e
    WHERE e.tenant_id = p_tenant AND e.stream = v_stream ORDER BY e.version DESC LIMIT 1;
    PERFORM audit.append(p_tenant, gen_random_uuid(), v_stream, coalesce(v_last.version, 0) + 1,
      greatest(v_occurred_us, v_last.occurred_us + 1), p_type, v_actor,
      jsonb_build_object('table', 'logs', 'reason', NULL, 'changes', NULL, 'snapshot', p_snapshot, 'requestId', NULL)::text,
      coalesce(v_last.event_hash, audit.genesis_hash(p_tenant, v_stream)));
    RETURN coalesce(v_last.version, 0) + 1;
  END
  $function$
  GRANT EXECUTE TO waybill_sealer

FUNCTION audit.refuse_change OWNER waybill_audit
  CREATE OR REPLACE FUNCTION audit.refuse_change()
   RETURNS trigger
   LANGUAGE plpgsql
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    RAISE EXCEPTION '% on %.% is refused: it is append-only', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
      USING ERRCODE = 'WB002';
  END
  $function$

FUNCTION audit.state_faults OWNER waybill_audit
  -- Compares the next entities of one table with the last events of their streams, through the same snapshot function, on the members that the event has. One row: the last entity that was looked at, and the first fault. In the tenant's context.
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
  $function$
  GRANT EXECUTE TO waybill_sealer

FUNCTION audit.state_sources OWNER waybill_audit
  -- Which tables have streams: prefix, table, snapshot function, as the arguments of their triggers on audit.record_change say.
  CREATE OR REPLACE FUNCTION audit.state_sources()
   RETURNS TABLE(prefix text, entity_table regclass, snapshot_function text)
   LANGUAGE sql
   STABLE
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
    SELECT DISTINCT a.args[1], t.tgrelid::regclass, a.args[2]
    FROM pg_trigger t
    CROSS JOIN LATERAL (SELECT string_to_array(encode(t.tgargs, 'escape'), '\000') AS args) a
    WHERE t.tgfoid = 'audit.record_change()'::regprocedure
  $function$
  GRANT EXECUTE TO waybill_sealer

FUNCTION waybill.add_state OWNER waybill_owner
  -- For an extension's migration: adds a state with its transitions [{from_state, to_state, roles, requires_reason?, guards?}] and rebuilds the CHECK of the machine's table.
  CREATE OR REPLACE FUNCTION waybill.add_state(p_machine text, p_state text, p_transitions jsonb)
   RETURNS void
   LANGUAGE plpgsql
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_table regclass;
    v_constraint text;
    v_states text;
  BEGIN
    SELECT m.entity_table::regclass INTO v_table FROM waybill.machines m WHERE m.machine = p_machine;
    IF v_table IS NULL THEN
      RAISE EXCEPTION 'There is no machine %', p_machine USING ERRCODE = 'WB003', HINT = 'waybill.machines lists them.';
    END IF;
    INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason, guards)
    SELECT p_machine, t.from_state, t.to_state, t.roles, coalesce(t.requires_reason, false), coalesce(t.guards, '{}')
    FROM jsonb_to_recordset(p_transitions)
      AS t(from_state text, to_state text, roles text[], requires_reason boolean, guards text[]);

    v_constraint := (SELECT c.relname FROM pg_class c WHERE c.oid = v_table) || '_status_check';
    -- What was allowed stays allowed: entities may be in a state that no transition names any more.
    SELECT string_agg(quote_literal(s.state), ', ' ORDER BY s.state) INTO v_states FROM (
      SELECT p_state AS state
      UNION SELECT m.initial_state FROM waybill.machines m WHERE m.machine = p_machine
      UNION SELECT unnest(ARRAY[t.from_state, t.to_state]) FROM waybill.valid_transitions t WHERE t.machine = p_machine
      UNION SELECT (regexp_matches(pg_get_constraintdef(c.oid), '''([a-z][a-z0-9_]*)''', 'g'))[1]
            FROM pg_constraint c WHERE c.conrelid = v_table AND c.conname = v_constraint
    ) s;
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I, ADD CONSTRAINT %2$I CHECK (status IN (%3$s)) NOT VALID',
                   v_table, v_constraint, v_states);
    EXECUTE format('ALTER TABLE %s VALIDATE CONSTRAINT %I', v_table, v_constraint);
  END
  $function$

FUNCTION waybill.apply_payment_fact OWNER waybill_owner
  -- Brings a payment to what its provider says happened: authorized, declined, captured or voided. Returns applied or nothing-to-do.
  CREATE OR REPLACE FUNCTION waybill.apply_payment_fact(p_tenant bigint, p_payment uuid, p_fact text, p_provider_ref text, p_amount bigint, p_decline_code text)
   RETURNS text
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
    v_pending waybill.payment_attempts;
    v_operation text := CASE p_fact WHEN 'captured' THEN 'capture' WHEN 'voided' THEN 'void' ELSE 'authorize' END;
    v_is_mine boolean;
  BEGIN
    SELECT a.* INTO v_pending FROM waybill.payment_attempts a
    WHERE a.tenant_id = p_tenant AND a.payment_id = p_payment AND a.refund_id IS NULL
      AND a.status IN ('processing', 'needs_reconciliation');
    v_is_mine := FOUND AND v_pending.operation = v_operation;

    -- Facts come late and in any order. What a payment has left behind says nothing new of it.
    IF v_payment.status IN ('declined', 'captured', 'voided', 'refunded')
       OR (p_fact IN ('authorized', 'declined') AND NOT v_is_mine) THEN
      RETURN 'nothing-to-do';
    END IF;
    IF v_is_mine THEN
      PERFORM waybill.settle_payment_attempt(p_tenant, v_pending.id, CASE p_fact WHEN 'declined' THEN 'refused' ELSE 'succeeded' END,
                                             p_provider_ref, p_amount, p_decline_code);
      RETURN 'applied';
    END IF;
    -- Captured or let go, but not by what is pending here: a hold was there in any case, and a rival step came too late.
    IF v_pending.id IS NOT NULL THEN
      PERFORM waybill.settle_payment_attempt(p_tenant, v_pending.id, CASE v_pending.operation WHEN 'authorize' THEN 'succeeded' ELSE 'refused' END,
                                             p_provider_ref, NULL, CASE WHEN v_pending.operation <> 'authorize' THEN 'already_' || p_fact END);
    END IF;
    UPDATE waybill.payments p
    SET status = p_fact,
        captured = CASE p_fact WHEN 'captured' THEN coalesce(p_amount, p.authorized) ELSE p.captured END,
        captured_tax = CASE p_fact WHEN 'captured' THEN waybill.share_of_tax(coalesce(p_amount, p.authorized), p.amount, p.tax) ELSE p.captured_tax END,
        provider_ref = coalesce(p.provider_ref, p_provider_ref)
    WHERE p.tenant_id = p_tenant AND p.id = p_payment;
    RETURN 'applied';
  END
  $function$

FUNCTION waybill.apply_refund_fact OWNER waybill_owner
  -- Brings a refund to what its provider says happened: succeeded or failed, also long after it succeeded. Returns applied or nothing-to-do.
  CREATE OR REPLACE FUNCTION waybill.apply_refund_fact(p_tenant bigint, p_refund uuid, p_fact text, p_provider_ref text, p_decline_code text)
   RETURNS text
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_refund waybill.refunds;
    v_attempt uuid;
  BEGIN
    PERFORM waybill.lock_payment(p_tenant, r.payment_id) FROM waybill.refunds r WHERE r.tenant_id = p_tenant AND r.id = p_refund;
    SELECT r.* INTO v_refund FROM waybill.refunds r WHERE r.tenant_id = p_tenant AND r.id = p_refund FOR NO KEY UPDATE;
    IF v_refund.status IN ('processing', 'needs_reconciliation') THEN
      SELECT a.id INTO STRICT v_attempt FROM waybill.payment_attempts a
      WHERE a.tenant_id = p_tenant AND a.refund_id = p_refund AND a.settled_at IS NULL;
      PERFORM waybill.settle_payment_attempt(p_tenant, v_attempt, CASE p_fact WHEN 'failed' THEN 'refused' ELSE 'succeeded' END,
                                             p_provider_ref, NULL, p_decline_code);
      RETURN 'applied';
    END IF;
    IF v_refund.status <> 'succeeded' OR p_fact <> 'failed' THEN
      RETURN 'nothing-to-do';
    END IF;
    -- A bank can send a refund back days later. The payment holds the money again, and is live again unless another one is.
    WITH refund AS (
      UPDATE waybill.refunds r SET status = 'failed', decline_code = p_decline_code WHERE r.tenant_id = p_tenant AND r.id = p_refund
    )
    UPDATE waybill.payments p
    SET refunded = p.refunded - v_refund.amount, refunded_tax = p.refunded_tax - v_refund.tax,
        status = CASE WHEN p.status = 'refunded' AND NOT EXISTS (
          SELECT FROM waybill.payments o WHERE o.tenant_id = p_tenant AND o.order_id = p.order_id AND o.id <> p.id
            AND o.status NOT IN ('declined', 'voided', 'refunded')) THEN 'captured' ELSE p.status END
    WHERE p.tenant_id = p_tenant AND p.id = v_refund.payment_id;
    RETURN 'applied';
  END
  $function$

FUNCTION waybill.begin_capture OWNER waybill_owner
  -- Puts on record that a provider is about to be asked to take an amount (null: all that it holds). No row when there is no such payment.
  CREATE OR REPLACE FUNCTION waybill.begin_capture(p_tenant bigint, p_payment uuid, p_attempt uuid, p_provider_key text, p_amount bigint)
   RETURNS SETOF waybill.payment_details
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
    v_amount bigint := coalesce(p_amount, v_payment.authorized);
  BEGIN
    IF v_payment.id IS NULL THEN
      RETURN;
    END IF;
    IF v_payment.status <> 'authorized' THEN
      PERFORM waybill.refuse_payment_step(v_payment, 'captured');
    END IF;
    IF v_amount NOT BETWEEN 1 AND v_payment.authorized THEN
      PERFORM waybill.refuse_payment_amount(v_amount, v_payment.authorized);
    END IF;
    WITH attempt AS (
      INSERT INTO waybill.payment_attempts (tenant_id, id, payment_id, operation, provider_key, amount, tax)
      VALUES (p_tenant, p_attempt, p_payment, 'capture', p_provider_key, v_amount,
              waybill.share_of_tax(v_amount, v_payment.amount, v_payment.tax))
    )
    UPDATE waybill.payments p SET status = 'capturing' WHERE p.tenant_id = p_tenant AND p.id = p_payment;
    RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = p_payment;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.begin_history OWNER waybill_owner
  -- AFTER INSERT … FOR EACH ROW, arguments: history table, its column for this entity. The first row of the history.
  CREATE OR REPLACE FUNCTION waybill.begin_history()
   RETURNS trigger
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    -- A statement that names its table is planned once a session; EXECUTE plans at every call.
    IF TG_ARGV[0] = 'waybill.order_status_history' THEN
      INSERT INTO waybill.order_status_history (tenant_id, order_id, seq, to_status, changed_by, changed_at, request_id)
      VALUES (NEW.tenant_id, NEW.id, 1, NEW.status, current_setting('waybill.actor')::uuid, NEW.updated_at,
              nullif(current_setting('waybill.request_id', true), ''));
      RETURN NULL;
    END IF;
    EXECUTE format('INSERT INTO %s (tenant_id, %I, seq, to_status, changed_by, changed_at, request_id)
                    VALUES ($1, $2, 1, $3, $4, $5, $6)', TG_ARGV[0], TG_ARGV[1])
    USING NEW.tenant_id, NEW.id, NEW.status, current_setting('waybill.actor')::uuid, NEW.updated_at,
          nullif(current_setting('waybill.request_id', true), '');
    RETURN NULL;
  END
  $function$

FUNCTION waybill.begin_payment OWNER waybill_owner
  -- Puts on record that a provider is about to be asked to hold an amount (null: the order's total). No row when there is no such order.
  CREATE OR REPLACE FUNCTION waybill.begin_payment(p_tenant bigint, p_order uuid, p_payment uuid, p_attempt uuid, p_provider text, p_provider_key text, p_payment_method text, p_amount bigint)
   RETURNS SETOF waybill.payment_details
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_order waybill.orders := waybill.lock_order(p_tenant, p_order, NULL);
    v_amount bigint := coalesce(p_amount, v_order.total);
    v_tax bigint := waybill.share_of_tax(v_amount, nullif(v_order.total, 0), v_order.tax);
    v_live record;
    v_now timestamptz := clock_timestamp();
  BEGIN
    IF v_order.id IS NULL THEN
      RETURN;
    END IF;
    IF v_order.status = 'canceled' THEN
      RAISE EXCEPTION 'order % is canceled: nothing is to be paid', p_order USING ERRCODE = 'WB031';
    END IF;
    SELECT p.id, p.status INTO v_live FROM waybill.payments p
    WHERE p.tenant_id = p_tenant AND p.order_id = p_order AND p.status NOT IN ('declined', 'voided', 'refunded');
    IF FOUND THEN
      RAISE EXCEPTION 'order % has a live payment %, which is %', p_order, v_live.id, v_live.status
        USING ERRCODE = 'WB030', DETAIL = jsonb_build_object('paymentId', v_live.id, 'status', v_live.status)::text;
    END IF;
    IF v_amount NOT BETWEEN 1 AND v_order.total THEN
      PERFORM waybill.refuse_payment_amount(v_amount, v_order.total);
    END IF;
    WITH attempt AS (
      INSERT INTO waybill.payment_attempts (tenant_id, id, payment_id, operation, provider_key, payment_method, amount, tax)
      VALUES (p_tenant, p_attempt, p_payment, 'authorize', p_provider_key, p_payment_method, v_amount, v_tax)
    )
    INSERT INTO waybill.payments (tenant_id, id, order_id, provider, status, currency, amount, tax, created_at, updated_at)
    SELECT p_tenant, p_payment, p_order, p_provider, m.initial_state, v_order.currency, v_amount, v_tax, v_now, v_now
    FROM waybill.machines m WHERE m.machine = 'payment';
    RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = p_payment;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.begin_refund OWNER waybill_owner
  -- Promises an amount (null: all that is left) with the tax in it (null: in proportion) to a refund. No row when there is no such payment.
  CREATE OR REPLACE FUNCTION waybill.begin_refund(p_tenant bigint, p_payment uuid, p_refund uuid, p_attempt uuid, p_provider_key text, p_amount bigint, p_tax bigint, p_reason text)
   RETURNS SETOF waybill.payment_details
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
    v_left bigint := v_payment.captured - v_payment.refunded - v_payment.refunding;
    v_left_tax bigint := v_payment.captured_tax - v_payment.refunded_tax - v_payment.refunding_tax;
    v_amount bigint := coalesce(p_amount, v_left);
    v_tax bigint := coalesce(p_tax, waybill.share_of_tax(v_amount, nullif(v_left, 0), v_left_tax));
    v_now timestamptz := clock_timestamp();
  BEGIN
    IF v_payment.id IS NULL THEN
      RETURN;
    END IF;
    IF v_payment.status NOT IN ('captured', 'refunded') THEN
      PERFORM waybill.refuse_payment_step(v_payment, 'refunded');
    END IF;
    IF v_left < 1 OR v_amount > v_left OR v_tax > v_left_tax OR v_amount - v_tax > v_left - v_left_tax THEN
      RAISE EXCEPTION 'payment % has % (tax %) left to refund, not % (tax %)', p_payment, v_left, v_left_tax, v_amount, v_tax
        USING ERRCODE = 'WB033', DETAIL = jsonb_build_object('left', v_left, 'leftTax', v_left_tax)::text;
    END IF;
    IF v_amount < 1 OR v_tax NOT BETWEEN 0 AND v_amount THEN
      PERFORM waybill.refuse_payment_amount(v_amount, v_left);
    END IF;
    WITH attempt AS (
      INSERT INTO waybill.payment_attempts (tenant_id, id, payment_id, refund_id, operation, provider_key, amount, tax)
      VALUES (p_tenant, p_attempt, p_payment, p_refund, 'refund', p_provider_key, v_amount, v_tax)
    ), refund AS (
      INSERT INTO waybill.refunds (tenant_id, id, payment_id, status, amount, tax, reason, created_at, updated_at)
      SELECT p_tenant, p_refund, p_payment, m.initial_state, v_amount, v_tax, p_reason, v_now, v_now
      FROM waybill.machines m WHERE m.machine = 'refund'
    )
    UPDATE waybill.payments p SET refunding = p.refunding + v_amount, refunding_tax = p.refunding_tax + v_tax
    WHERE p.tenant_id = p_tenant AND p.id = p_payment;
    RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = p_payment;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.begin_void OWNER waybill_owner
  -- Puts on record that a provider is about to be asked to let go of what it holds. No row when there is no such payment.
  CREATE OR REPLACE FUNCTION waybill.begin_void(p_tenant bigint, p_payment uuid, p_attempt uuid, p_provider_key text)
   RETURNS SETOF waybill.payment_details
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_payment waybill.payments := waybill.lock_payment(p_tenant, p_payment);
  BEGIN
    IF v_payment.id IS NULL THEN
      RETURN;
    END IF;
    IF v_payment.status <> 'authorized' THEN
      PERFORM waybill.refuse_payment_step(v_payment, 'voided');
    END IF;
    WITH attempt AS (
      INSERT INTO waybill.payment_attempts (tenant_id, id, payment_id, operation, provider_key, amount, tax)
      VALUES (p_tenant, p_attempt, p_payment, 'void', p_provider_key, v_payment.amount, v_payment.tax)
    )
    UPDATE waybill.payments p SET status = 'voiding' WHERE p.tenant_id = p_tenant AND p.id = p_payment;
    RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = p_payment;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.change_user OWNER waybill_owner
  -- Changes a user and returns it; null leaves a part as it is. No row for the system user, and where there is none.
  CREATE OR REPLACE FUNCTION waybill.change_user(p_tenant bigint, p_id uuid, p_display_name text, p_roles text[], p_disabled boolean)
   RETURNS SETOF waybill.users
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    PERFORM waybill.require_admin();
    RETURN QUERY
    UPDATE waybill.users u
    SET display_name = coalesce(p_display_name, u.display_name), roles = coalesce(p_roles, u.roles),
        disabled_at = CASE p_disabled WHEN true THEN coalesce(u.disabled_at, clock_timestamp()) WHEN false THEN NULL ELSE u.disabled_at END
    WHERE u.tenant_id = p_tenant AND u.id = p_id AND u.kind <> 'system' RETURNING u.*;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.check_order_amounts OWNER waybill_owner
  -- Refuses an order whose subtotal, discount, tax or total differ from the sums of its lines, and one without lines.
  CREATE OR REPLACE FUNCTION waybill.check_order_amounts(p_tenant bigint, p_order uuid)
   RETURNS void
   LANGUAGE plpgsql
   STABLE
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_order record;
    v_lines record;
  BEGIN
    SELECT o.subtotal, o.discount, o.tax, o.total - o.shipping AS lines_total INTO v_order
    FROM waybill.orders o WHERE o.tenant_id = p_tenant AND o.id = p_order;
    SELECT sum(l.quantity * l.unit_price)::bigint AS subtotal, sum(l.discount)::bigint AS discount,
           sum(l.tax)::bigint AS tax, sum(l.total)::bigint AS lines_total INTO v_lines
    FROM waybill.order_lines l WHERE l.tenant_id = p_tenant AND l.order_id = p_order;
    IF v_order IS DISTINCT FROM v_lines THEN
      RAISE EXCEPTION 'the amounts of order % are not the sums of its lines: % against %', p_order, v_order, v_lines
        USING ERRCODE = 'WB016', HINT = 'Use waybill.place_order and waybill.patch_order: they write an order and its lines together.';
    END IF;
  END
  $function$

FUNCTION waybill.claim_key OWNER waybill_owner
  -- Sets the context and claims a key for this transaction. outcome: claimed, taken_over (from a lapsed lease), replay (with the answer), reused, in_flight, erased. A lease is given for work that goes on after COMMIT.
  CREATE OR REPLACE FUNCTION waybill.claim_key(p_tenant bigint, p_actor uuid, p_roles text[], p_request_id text, p_key text, p_hash bytea, p_lease_token uuid, p_lease interval, OUT outcome text, OUT retry_after integer, OUT claimed_at timestamp with time zone, OUT answer_status smallint, OUT answer_headers jsonb, OUT answer_body bytea)
   RETURNS record
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_key waybill.idempotency_keys;
    v_locked boolean;
    v_now timestamptz := clock_timestamp();
  BEGIN
    PERFORM waybill.set_context(p_tenant, p_actor, p_roles, p_request_id);
    v_locked := pg_try_advisory_xact_lock(hashtextextended(p_key, p_tenant));
    PERFORM set_config('waybill.locked_key', CASE WHEN v_locked THEN p_key ELSE '' END, true);
    LOOP
      -- A statement of its own has a snapshot of its own: with the lock it sees whatever its last holder has committed.
      SELECT k.* INTO v_key FROM waybill.idempotency_keys k WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key;
      IF NOT FOUND THEN
        IF NOT v_locked THEN
          outcome := waybill.refuse_writes('in_flight');
          RETURN;
        END IF;
        -- Without a lease the row is written once, by complete_key: nobody else can have the key before this transaction ends.
        IF p_lease_token IS NOT NULL THEN
          INSERT INTO waybill.idempotency_keys (tenant_id, idempotency_key, request_hash, status, lease_token, lease_until, created_at)
          VALUES (p_tenant, p_key, p_hash, 'processing', p_lease_token, v_now + p_lease, v_now);
        END IF;
        outcome := 'claimed';
        RETURN;
      END IF;

      IF v_key.expires_at <= v_now THEN
        IF NOT v_locked THEN
          outcome := waybill.refuse_writes('in_flight');
          RETURN;
        END IF;
        UPDATE waybill.idempotency_keys k
        SET request_hash = p_hash, status = 'processing', lease_token = p_lease_token, lease_until = v_now + p_lease,
            attempt = 1, call_started_at = NULL, provider_ref = NULL, resource = NULL, response_status = NULL,
            response_headers = NULL, response_body = NULL, created_at = v_now, expires_at = NULL
        WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.expires_at <= v_now;
        CONTINUE WHEN NOT FOUND; -- the sweeper was faster
        outcome := 'claimed';
        RETURN;
      END IF;

      IF v_key.request_hash <> p_hash THEN
        outcome := waybill.refuse_writes('reused');
        RETURN;
      END IF;

      IF v_key.status = 'processing' THEN
        -- Whoever has a lease may be away on a call, so only a caller who brings a lease may take over from it.
        IF NOT v_locked OR v_key.lease_until > v_now OR (v_key.lease_token IS NOT NULL AND p_lease_token IS NULL) THEN
          outcome := waybill.refuse_writes('in_flight');
          retry_after := greatest(1, ceil(extract(epoch FROM v_key.lease_until - v_now)));
          RETURN;
        END IF;
        UPDATE waybill.idempotency_keys k
        SET lease_token = p_lease_token, lease_until = v_now + p_lease, attempt = k.attempt + 1
        WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.status = 'processing'
          AND k.lease_token IS NOT DISTINCT FROM v_key.lease_token AND k.lease_until IS NOT DISTINCT FROM v_key.lease_until;
        CONTINUE WHEN NOT FOUND; -- its worker finished after all
        outcome := CASE WHEN v_key.lease_token IS NULL THEN 'claimed' ELSE 'taken_over' END;
        RETURN;
      END IF;

      outcome := waybill.refuse_writes(CASE WHEN v_key.response_body IS NULL THEN 'erased' ELSE 'replay' END);
      claimed_at := v_key.created_at;
      answer_status := v_key.response_status;
      answer_headers := v_key.response_headers;
      answer_body := v_key.response_body;
      RETURN;
    END LOOP;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.complete_key OWNER waybill_owner
  -- Stores the answer under a key that this transaction has claimed (by the request's hash) or that its worker holds (by the lease). The default time to live is for tenants without a policy; null is for ever.
  CREATE OR REPLACE FUNCTION waybill.complete_key(p_tenant bigint, p_key text, p_hash bytea, p_lease_token uuid, p_status smallint, p_headers jsonb, p_body bytea, p_resource text, p_default_ttl interval)
   RETURNS void
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_status text := CASE WHEN p_status < 300 THEN 'completed' ELSE 'failed' END;
    v_ttl interval;
    v_expires_at timestamptz;
  BEGIN
    SELECT p.ttl INTO v_ttl FROM waybill.idempotency_policies p WHERE p.tenant_id = p_tenant;
    IF NOT FOUND THEN
      v_ttl := p_default_ttl;
    END IF;
    v_expires_at := coalesce(clock_timestamp() + v_ttl, 'infinity');
    IF p_lease_token IS NULL THEN
      -- Nothing, where the transaction that claimed the key was another one.
      INSERT INTO waybill.idempotency_keys AS k (tenant_id, idempotency_key, request_hash, status, response_status,
                                                 response_headers, response_body, resource, created_at, expires_at)
      SELECT p_tenant, p_key, p_hash, v_status, p_status, p_headers, p_body, p_resource, now(), v_expires_at
      WHERE current_setting('waybill.locked_key', true) = p_key
      ON CONFLICT (tenant_id, idempotency_key) DO UPDATE
      SET status = EXCLUDED.status, response_status = EXCLUDED.response_status, response_headers = EXCLUDED.response_headers,
          response_body = EXCLUDED.response_body, resource = EXCLUDED.resource, expires_at = EXCLUDED.expires_at
      WHERE k.status = 'processing' AND k.lease_token IS NULL AND k.request_hash = EXCLUDED.request_hash;
    ELSE
      UPDATE waybill.idempotency_keys k
      SET status = v_status, lease_token = NULL, lease_until = NULL, response_status = p_status,
          response_headers = p_headers, response_body = p_body, resource = p_resource, expires_at = v_expires_at
      WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.status = 'processing'
        AND k.lease_token = p_lease_token;
    END IF;
    IF NOT FOUND THEN
      -- An error, so that the COMMIT behind it becomes a ROLLBACK of everything else, too.
      RAISE EXCEPTION 'key % of tenant % is no longer claimed by this worker', p_key, p_tenant USING ERRCODE = 'WB020';
    END IF;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.create_api_key OWNER waybill_owner
  -- Stores a key by the SHA-256 of its text and returns it; no row for the system user, which has none.
  CREATE OR REPLACE FUNCTION waybill.create_api_key(p_tenant bigint, p_id uuid, p_user uuid, p_prefix text, p_hash bytea, p_name text, p_expires_at timestamp with time zone)
   RETURNS SETOF waybill.api_keys
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    PERFORM waybill.require_admin();
    RETURN QUERY
    INSERT INTO waybill.api_keys AS k (tenant_id, id, user_id, prefix, hash, name, expires_at)
    SELECT p_tenant, p_id, u.id, p_prefix, p_hash, p_name, p_expires_at
    FROM waybill.users u WHERE u.tenant_id = p_tenant AND u.id = p_user AND u.kind <> 'system' RETURNING k.*;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.create_tenant OWNER waybill_owner
  -- Makes a tenant and its system user, and leaves the transaction in the context of both. For waybill_owner.
  CREATE OR REPLACE FUNCTION waybill.create_tenant(p_slug text, p_name text, p_system_user uuid)
   RETURNS bigint
   LANGUAGE plpgsql
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_tenant bigint;
  BEGIN
    INSERT INTO waybill.tenants (slug, name) VALUES (p_slug, p_name) RETURNING id INTO v_tenant;
    PERFORM waybill.set_context(v_tenant, p_system_user, ARRAY['system'], 'create_tenant');
    INSERT INTO waybill.users (tenant_id, id, subject, kind, display_name, roles)
    VALUES (v_tenant, p_system_user, 'system', 'system', 'Waybill', ARRAY['system']);
    RETURN v_tenant;
  END
  $function$

FUNCTION waybill.create_user OWNER waybill_owner
  -- Makes a user and returns it; no row when the subject is taken.
  CREATE OR REPLACE FUNCTION waybill.create_user(p_tenant bigint, p_id uuid, p_subject text, p_kind text, p_display_name text, p_roles text[])
   RETURNS SETOF waybill.users
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    PERFORM waybill.require_admin();
    RETURN QUERY
    INSERT INTO waybill.users AS u (tenant_id, id, subject, kind, display_name, roles)
    VALUES (p_tenant, p_id, p_subject, p_kind, p_display_name, p_roles)
    ON CONFLICT (tenant_id, subject) DO NOTHING RETURNING u.*;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.erase_answers OWNER waybill_owner
  -- Blanks every stored answer that shows one of these resources (order/<id>). Belongs into the transaction that erases the person; one pass over the tenant's keys, however many resources.
  CREATE OR REPLACE FUNCTION waybill.erase_answers(p_tenant bigint, p_resources text[])
   RETURNS integer
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_erased int;
  BEGIN
    UPDATE waybill.idempotency_keys k SET response_body = NULL
    WHERE k.tenant_id = p_tenant AND k.resource = ANY (p_resources) AND k.response_body IS NOT NULL;
    GET DIAGNOSTICS v_erased = ROW_COUNT;
    RETURN v_erased;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.erase_customer OWNER waybill_owner
  -- Erases the personal data of at most p_limit of a customer's orders. Says whether there is such a customer, how many orders were erased, and whether some are left.
  CREATE OR REPLACE FUNCTION waybill.erase_customer(p_tenant bigint, p_customer_ref text, p_limit integer)
   RETURNS TABLE(known boolean, erased integer, remaining boolean)
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
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
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.find_tenant OWNER waybill_owner
  -- The id of the tenant with this id, in digits, or with this slug; null when there is none.
  CREATE OR REPLACE FUNCTION waybill.find_tenant(p_name text)
   RETURNS bigint
   LANGUAGE sql
   STABLE SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
    SELECT t.id FROM waybill.tenants t
    WHERE CASE WHEN p_name ~ '^[0-9]{1,16}$' THEN t.id = p_name::bigint ELSE t.slug = p_name END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.guard_insert OWNER waybill_owner
  -- BEFORE INSERT … FOR EACH ROW, argument: machine. Initial state, version 1, the present as time.
  CREATE OR REPLACE FUNCTION waybill.guard_insert()
   RETURNS trigger
   LANGUAGE plpgsql
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_initial text;
  BEGIN
    SELECT m.initial_state INTO STRICT v_initial FROM waybill.machines m WHERE m.machine = TG_ARGV[0];
    IF NEW.status IS DISTINCT FROM v_initial THEN
      RAISE EXCEPTION '% % cannot begin as %: every % begins as %', TG_ARGV[0], NEW.id, NEW.status, TG_ARGV[0], v_initial
        USING ERRCODE = 'WB003', HINT = 'Insert it in its initial state, then move it along valid_transitions.';
    END IF;
    IF NEW.version IS DISTINCT FROM 1 THEN
      RAISE EXCEPTION '% % cannot begin at version %: versions begin at 1', TG_ARGV[0], NEW.id, NEW.version
        USING ERRCODE = 'WB003';
    END IF;
    -- A time within this statement is kept, so that a command can give two columns the same one; any other is a forgery.
    IF NEW.updated_at IS NULL OR NEW.updated_at NOT BETWEEN statement_timestamp() AND clock_timestamp() THEN
      NEW.updated_at := clock_timestamp();
    END IF;
    NEW.transition_reason := NULL;
    RETURN NEW;
  END
  $function$

FUNCTION waybill.guard_order_lines OWNER waybill_owner
  CREATE OR REPLACE FUNCTION waybill.guard_order_lines()
   RETURNS trigger
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_status text;
  BEGIN
    SELECT o.status INTO v_status FROM waybill.orders o WHERE o.tenant_id = OLD.tenant_id AND o.id = OLD.order_id;
    IF v_status <> 'pending' THEN
      RAISE EXCEPTION 'the lines of order % are fixed: it is %', OLD.order_id, v_status USING ERRCODE = 'WB015';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
  END
  $function$

FUNCTION waybill.guard_update OWNER waybill_owner
  -- BEFORE UPDATE … FOR EACH ROW, arguments: machine, history table, its column for this entity. Transition, role, reason, version, time, history.
  CREATE OR REPLACE FUNCTION waybill.guard_update()
   RETURNS trigger
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_rule waybill.valid_transitions;
    v_held text[] := string_to_array(current_setting('waybill.roles', true), ',');
    v_reason text := nullif(btrim(NEW.transition_reason), '');
  BEGIN
    NEW.transition_reason := NULL;
    IF NEW IS NOT DISTINCT FROM OLD THEN
      RETURN NEW;
    END IF;

    IF NEW.version NOT BETWEEN OLD.version AND OLD.version + 1 THEN
      RAISE EXCEPTION '% % is at version %: the next one is %, not %',
                      TG_ARGV[0], OLD.id, OLD.version, OLD.version + 1, NEW.version
        USING ERRCODE = 'WB003', HINT = 'Leave version out of the UPDATE: it counts by itself.';
    END IF;
    NEW.version := OLD.version + 1;
    NEW.updated_at := greatest(clock_timestamp(), OLD.updated_at + interval '1 microsecond');
    IF NEW.status = OLD.status THEN
      RETURN NEW;
    END IF;

    SELECT t.* INTO v_rule FROM waybill.valid_transitions t
    WHERE t.machine = TG_ARGV[0] AND t.from_state = OLD.status AND t.to_state = NEW.status;
    IF NOT FOUND THEN
      RAISE EXCEPTION '% % cannot go from % to %', TG_ARGV[0], OLD.id, OLD.status, NEW.status
        USING ERRCODE = 'WB010',
              DETAIL = jsonb_build_object('from', OLD.status, 'to', NEW.status, 'allowed', waybill.next_states(TG_ARGV[0], OLD.status))::text,
              HINT = 'waybill.valid_transitions lists what is allowed.';
    END IF;
    IF NOT v_rule.roles && coalesce(v_held, '{}') THEN
      RAISE EXCEPTION '% % goes from % to % only by one of the roles %',
                      TG_ARGV[0], OLD.id, OLD.status, NEW.status, array_to_string(v_rule.roles, ', ')
        USING ERRCODE = 'WB013', DETAIL = jsonb_build_object('roles', to_jsonb(v_rule.roles))::text,
              HINT = 'waybill.set_context says which roles the actor holds.';
    END IF;
    IF v_rule.requires_reason AND v_reason IS NULL THEN
      RAISE EXCEPTION '% % goes from % to % only with a reason', TG_ARGV[0], OLD.id, OLD.status, NEW.status
        USING ERRCODE = 'WB014', HINT = 'Give it in the same UPDATE: SET status = …, transition_reason = …';
    END IF;

    -- The history is written here and not after the row, because only here the reason is at hand: it is an argument
    -- that the row doesn't keep.
    IF TG_ARGV[1] = 'waybill.order_status_history' THEN
      INSERT INTO waybill.order_status_history (tenant_id, order_id, seq, from_status, to_status, changed_by, changed_at, reason, request_id)
      SELECT NEW.tenant_id, NEW.id, max(h.seq) + 1, OLD.status, NEW.status, current_setting('waybill.actor')::uuid,
             NEW.updated_at, v_reason, nullif(current_setting('waybill.request_id', true), '')
      FROM waybill.order_status_history h WHERE h.tenant_id = NEW.tenant_id AND h.order_id = NEW.id;
      RETURN NEW;
    END IF;
    EXECUTE format('INSERT INTO %s (tenant_id, %I, seq, from_status, to_status, changed_by, changed_at, reason, request_id)
                    SELECT $1, $2, max(h.seq) + 1, $3, $4, $5, $6, $7, $8 FROM %1$s h WHERE h.tenant_id = $1 AND h.%2$I = $2',
                   TG_ARGV[1], TG_ARGV[2])
    USING NEW.tenant_id, NEW.id, OLD.status, NEW.status, current_setting('waybill.actor')::uuid, NEW.updated_at, v_reason,
          nullif(current_setting('waybill.request_id', true), '');
    RETURN NEW;
  END
  $function$

FUNCTION waybill.keep_webhook_event OWNER waybill_owner
  -- Keeps a provider's event and applies its fact, once. Returns applied, nothing-to-do, unknown, or seen for one that came before.
  CREATE OR REPLACE FUNCTION waybill.keep_webhook_event(p_tenant bigint, p_provider text, p_event text, p_type text, p_digest bytea, p_provider_key text, p_provider_ref text, p_subject text, p_fact text, p_amount bigint, p_decline_code text)
   RETURNS text
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_attempt record;
    v_outcome text := 'unknown';
  BEGIN
    -- A second delivery of the same event waits here for the first one.
    PERFORM pg_advisory_xact_lock(hashtextextended(p_tenant || '/' || p_provider || '/' || p_event, 20));
    IF EXISTS (SELECT FROM waybill.payment_webhook_events e
               WHERE e.tenant_id = p_tenant AND e.provider = p_provider AND e.event = p_event) THEN
      RETURN 'seen';
    END IF;
    SELECT a.payment_id, a.refund_id INTO v_attempt
    FROM waybill.payment_attempts a JOIN waybill.payments p ON p.tenant_id = p_tenant AND p.id = a.payment_id
    WHERE a.tenant_id = p_tenant AND a.provider_key = p_provider_key AND p.provider = p_provider;
    IF v_attempt.payment_id IS NOT NULL AND p_fact IS NOT NULL THEN
      v_outcome := CASE
        WHEN p_subject = 'payment' THEN waybill.apply_payment_fact(p_tenant, v_attempt.payment_id, p_fact, p_provider_ref, p_amount, p_decline_code)
        WHEN v_attempt.refund_id IS NOT NULL THEN waybill.apply_refund_fact(p_tenant, v_attempt.refund_id, p_fact, p_provider_ref, p_decline_code)
        ELSE 'unknown' END;
    END IF;
    INSERT INTO waybill.payment_webhook_events (tenant_id, provider, event, type, payment_id, outcome, digest)
    VALUES (p_tenant, p_provider, p_event, p_type, v_attempt.payment_id, v_outcome, p_digest);
    RETURN v_outcome;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.lock_order OWNER waybill_owner
  -- Locks an order until the transaction ends and checks its version, unless that is null. A row of nulls when there is none.
  CREATE OR REPLACE FUNCTION waybill.lock_order(p_tenant bigint, p_id uuid, p_expected_version integer)
   RETURNS waybill.orders
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_order waybill.orders;
  BEGIN
    PERFORM waybill.require_key();
    SELECT o.* INTO v_order FROM waybill.orders o WHERE o.tenant_id = p_tenant AND o.id = p_id FOR NO KEY UPDATE;
    IF v_order.version <> p_expected_version THEN
      RAISE EXCEPTION 'order % is at version %, not %', p_id, v_order.version, p_expected_version
        USING ERRCODE = 'WB012', DETAIL = jsonb_build_object('current', v_order.version)::text;
    END IF;
    RETURN v_order;
  END
  $function$

FUNCTION waybill.lock_order_details OWNER waybill_owner
  -- Locks an order as lock_order does and returns it; no row when there is none.
  CREATE OR REPLACE FUNCTION waybill.lock_order_details(p_tenant bigint, p_id uuid, p_expected_version integer)
   RETURNS SETOF waybill.order_details
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    -- Two statements: one that both waits for the lock and reads would show what was there before it waited.
    PERFORM waybill.lock_order(p_tenant, p_id, p_expected_version);
    RETURN QUERY SELECT d.* FROM waybill.order_details d WHERE d.tenant_id = p_tenant AND d.id = p_id;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.lock_payment OWNER waybill_owner
  -- Locks a payment and its order until the transaction ends. A row of nulls when there is none.
  CREATE OR REPLACE FUNCTION waybill.lock_payment(p_tenant bigint, p_payment uuid)
   RETURNS waybill.payments
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_payment waybill.payments;
  BEGIN
    -- Order first, then payment, then refund: the order of a payment never changes, so it may be read without a lock.
    PERFORM waybill.lock_order(p_tenant, p.order_id, NULL) FROM waybill.payments p WHERE p.tenant_id = p_tenant AND p.id = p_payment;
    SELECT p.* INTO v_payment FROM waybill.payments p WHERE p.tenant_id = p_tenant AND p.id = p_payment FOR NO KEY UPDATE;
    RETURN v_payment;
  END
  $function$

FUNCTION waybill.lock_users OWNER waybill_owner
  -- Keeps others from changing these users until the transaction ends, always in the order of their ids.
  CREATE OR REPLACE FUNCTION waybill.lock_users(p_tenant bigint, p_ids uuid[])
   RETURNS SETOF waybill.users
   LANGUAGE sql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
    SELECT u.* FROM waybill.users u WHERE u.tenant_id = p_tenant AND u.id = ANY (p_ids) ORDER BY u.id FOR NO KEY UPDATE
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.meet_user OWNER waybill_owner
  -- The user of a verified token, made on first sight; any number of first sights at once make one.
  CREATE OR REPLACE FUNCTION waybill.meet_user(p_tenant bigint, p_id uuid, p_subject text, p_display_name text, p_roles text[])
   RETURNS TABLE(id uuid, kind text, disabled boolean)
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    RETURN QUERY SELECT u.id, u.kind, u.disabled_at IS NOT NULL FROM waybill.users u
                 WHERE u.tenant_id = p_tenant AND u.subject = p_subject;
    IF FOUND THEN
      RETURN;
    END IF;
    -- Nobody has acted yet: who is met acts for himself. The tenant stays that of the transaction, so that row level
    -- security goes on guarding it.
    PERFORM waybill.set_context(nullif(current_setting('waybill.tenant_id', true), '')::bigint, p_id, '{}',
                                current_setting('waybill.request_id', true));
    INSERT INTO waybill.users (tenant_id, id, subject, kind, display_name, roles)
    VALUES (p_tenant, p_id, p_subject, 'human', p_display_name, p_roles)
    ON CONFLICT (tenant_id, subject) DO NOTHING;
    -- A second statement also sees the row of whoever was faster.
    RETURN QUERY SELECT u.id, u.kind, u.disabled_at IS NOT NULL FROM waybill.users u
                 WHERE u.tenant_id = p_tenant AND u.subject = p_subject;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.next_states OWNER waybill_owner
  CREATE OR REPLACE FUNCTION waybill.next_states(p_machine text, p_from text)
   RETURNS jsonb
   LANGUAGE sql
   STABLE
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
    SELECT coalesce(jsonb_agg(t.to_state ORDER BY t.to_state), '[]'::jsonb)
    FROM waybill.valid_transitions t WHERE t.machine = p_machine AND t.from_state = p_from
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.order_adds_up OWNER waybill_owner
  CREATE OR REPLACE FUNCTION waybill.order_adds_up()
   RETURNS trigger
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
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
    PERFORM waybill.check_order_amounts(NEW.tenant_id, NEW.id);
    RETURN NULL;
  END
  $function$

FUNCTION waybill.order_missing_values OWNER waybill_owner
  -- Contacts whose digest stands in an event of these orders, but whose value is gone without an erasure, or is another one.
  CREATE OR REPLACE FUNCTION waybill.order_missing_values(p_tenant bigint, p_orders uuid[])
   RETURNS TABLE(id uuid, field text, version bigint, state text)
   LANGUAGE sql
   STABLE
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
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
  $function$
  GRANT EXECUTE TO waybill_audit

FUNCTION waybill.order_snapshot OWNER waybill_owner
  -- An order as its events keep it: all that it is, with digests in the place of personal data.
  CREATE OR REPLACE FUNCTION waybill.order_snapshot(p_tenant bigint, p_order uuid)
   RETURNS jsonb
   LANGUAGE plpgsql
   STABLE PARALLEL SAFE
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    RETURN (
      SELECT jsonb_build_object('id', o.id, 'number', o.number, 'channel', o.channel, 'externalRef', o.external_ref,
        'customerRef', o.customer_ref, 'status', o.status, 'version', o.version, 'currency', o.currency,
        'subtotal', o.subtotal, 'discount', o.discount, 'tax', o.tax, 'shipping', o.shipping, 'total', o.total,
        'metadata', o.metadata, 'placedAt', to_char(o.placed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'updatedAt', to_char(o.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'lines', (
        SELECT jsonb_agg(jsonb_build_object('lineNo', l.line_no, 'sku', l.sku, 'name', l.name, 'quantity', l.quantity,
                 'unitPrice', l.unit_price, 'discount', l.discount, 'taxRatePpm', l.tax_rate_ppm, 'tax', l.tax,
                 'total', l.total, 'shippedQuantity', l.shipped_quantity) ORDER BY l.line_no)
        FROM waybill.order_lines l WHERE l.tenant_id = o.tenant_id AND l.order_id = o.id),
        'contacts', (
          SELECT jsonb_object_agg(c.field, jsonb_build_object('version', c.version, 'digest', audit.pii_digest(c.salt, c.field, c.value)))
          FROM (SELECT DISTINCT ON (field) field, version, salt, value FROM waybill.order_contacts
                WHERE tenant_id = p_tenant AND order_id = p_order ORDER BY field, version DESC) c))
      FROM waybill.orders o WHERE o.tenant_id = p_tenant AND o.id = p_order);
  END
  $function$
  GRANT EXECUTE TO waybill_audit

FUNCTION waybill.patch_order OWNER waybill_owner
  -- Changes what may still change of an order, as one version, and returns it. Null leaves a part as it is; contacts are parallel arrays.
  CREATE OR REPLACE FUNCTION waybill.patch_order(p_tenant bigint, p_id uuid, p_expected_version integer, p_metadata jsonb, p_subtotal bigint, p_discount bigint, p_tax bigint, p_shipping bigint, p_total bigint, p_skus text[], p_names text[], p_quantities bigint[], p_unit_prices bigint[], p_discounts bigint[], p_tax_rates bigint[], p_taxes bigint[], p_totals bigint[], p_fields text[], p_values text[], p_salts bytea[])
   RETURNS SETOF waybill.order_details
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_order waybill.orders := waybill.lock_order(p_tenant, p_id, p_expected_version);
  BEGIN
    IF p_skus IS NOT NULL AND v_order.status <> 'pending' THEN
      RAISE EXCEPTION 'the lines of order % are fixed: it is %', p_id, v_order.status USING ERRCODE = 'WB015';
    END IF;
    IF cardinality(p_fields) > 0 AND v_order.status NOT IN ('pending', 'confirmed') THEN
      RAISE EXCEPTION 'the contacts of order % are fixed: it is %', p_id, v_order.status USING ERRCODE = 'WB015';
    END IF;
    WITH kept_lines AS (
      INSERT INTO waybill.order_lines (tenant_id, order_id, line_no, sku, name, quantity, unit_price, discount, tax_rate_ppm, tax, total)
      SELECT p_tenant, p_id, l.no, l.sku, l.name, l.quantity, l.unit_price, l.discount, l.tax_rate, l.tax, l.total
      FROM unnest(p_skus, p_names, p_quantities, p_unit_prices, p_discounts, p_tax_rates, p_taxes, p_totals)
        WITH ORDINALITY AS l(sku, name, quantity, unit_price, discount, tax_rate, tax, total, no)
      ON CONFLICT (tenant_id, order_id, line_no) DO UPDATE
      SET sku = excluded.sku, name = excluded.name, quantity = excluded.quantity, unit_price = excluded.unit_price,
          discount = excluded.discount, tax_rate_ppm = excluded.tax_rate_ppm, tax = excluded.tax, total = excluded.total
    ), dropped_lines AS (
      DELETE FROM waybill.order_lines l
      WHERE l.tenant_id = p_tenant AND l.order_id = p_id AND l.line_no > cardinality(p_skus)
    ), new_contacts AS (
      INSERT INTO waybill.order_contacts (tenant_id, order_id, field, version, salt, value)
      SELECT p_tenant, p_id, c.field, v_order.version + 1, c.salt, c.value
      FROM unnest(p_fields, p_values, p_salts) AS c(field, value, salt)
    )
    UPDATE waybill.orders o
    SET version = o.version + 1, metadata = coalesce(p_metadata, o.metadata), subtotal = coalesce(p_subtotal, o.subtotal),
        discount = coalesce(p_discount, o.discount), tax = coalesce(p_tax, o.tax),
        shipping = coalesce(p_shipping, o.shipping), total = coalesce(p_total, o.total)
    WHERE o.tenant_id = p_tenant AND o.id = p_id;
    RETURN QUERY SELECT d.* FROM waybill.order_details d WHERE d.tenant_id = p_tenant AND d.id = p_id;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.payment_snapshot OWNER waybill_owner
  CREATE OR REPLACE FUNCTION waybill.payment_snapshot(p_tenant bigint, p_payment uuid)
   RETURNS jsonb
   LANGUAGE plpgsql
   STABLE PARALLEL SAFE
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    RETURN (
      SELECT jsonb_build_object('id', p.id, 'orderId', p.order_id, 'provider', p.provider, 'providerRef', p.provider_ref,
        'status', p.status, 'version', p.version, 'currency', p.currency, 'amount', p.amount, 'tax', p.tax,
        'authorized', p.authorized, 'captured', p.captured, 'capturedTax', p.captured_tax, 'refunding', p.refunding,
        'refundingTax', p.refunding_tax, 'refunded', p.refunded, 'refundedTax', p.refunded_tax,
        'declineCode', p.decline_code, 'createdAt', to_char(p.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'updatedAt', to_char(p.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
      FROM waybill.payments p WHERE p.tenant_id = p_tenant AND p.id = p_payment);
  END
  $function$
  GRANT EXECUTE TO waybill_audit

FUNCTION waybill.place_order OWNER waybill_owner
  -- Places an order with its lines and contacts and returns it. Amounts in minor units; arrays are parallel, one entry a line or contact.
  CREATE OR REPLACE FUNCTION waybill.place_order(p_tenant bigint, p_id uuid, p_number text, p_channel text, p_external_ref text, p_customer_ref text, p_currency text, p_subtotal bigint, p_discount bigint, p_tax bigint, p_shipping bigint, p_total bigint, p_metadata jsonb, p_skus text[], p_names text[], p_quantities bigint[], p_unit_prices bigint[], p_discounts bigint[], p_tax_rates bigint[], p_taxes bigint[], p_totals bigint[], p_fields text[], p_values text[], p_salts bytea[])
   RETURNS SETOF waybill.order_details
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_now timestamptz := clock_timestamp();
    v_taken uuid;
  BEGIN
    IF p_external_ref IS NOT NULL THEN
      SELECT o.id INTO v_taken FROM waybill.orders o
      WHERE o.tenant_id = p_tenant AND o.external_ref = p_external_ref AND o.channel = p_channel;
      IF FOUND THEN
        RAISE EXCEPTION 'channel % has an order % already: %', p_channel, p_external_ref, v_taken
          USING ERRCODE = 'WB017', DETAIL = jsonb_build_object('orderId', v_taken)::text;
      END IF;
    END IF;
    WITH new_lines AS (
      INSERT INTO waybill.order_lines (tenant_id, order_id, line_no, sku, name, quantity, unit_price, discount, tax_rate_ppm, tax, total)
      SELECT p_tenant, p_id, l.no, l.sku, l.name, l.quantity, l.unit_price, l.discount, l.tax_rate, l.tax, l.total
      FROM unnest(p_skus, p_names, p_quantities, p_unit_prices, p_discounts, p_tax_rates, p_taxes, p_totals)
        WITH ORDINALITY AS l(sku, name, quantity, unit_price, discount, tax_rate, tax, total, no)
    ), new_contacts AS (
      INSERT INTO waybill.order_contacts (tenant_id, order_id, field, version, salt, value)
      SELECT p_tenant, p_id, c.field, 1, c.salt, c.value FROM unnest(p_fields, p_values, p_salts) AS c(field, value, salt)
    )
    INSERT INTO waybill.orders (tenant_id, id, number, channel, external_ref, customer_ref, status, version, currency,
                                subtotal, discount, tax, shipping, total, metadata, placed_at, updated_at)
    SELECT p_tenant, p_id, p_number, p_channel, p_external_ref, p_customer_ref, m.initial_state, 1, p_currency,
           p_subtotal, p_discount, p_tax, p_shipping, p_total, p_metadata, v_now, v_now
    FROM waybill.machines m WHERE m.machine = 'order';
    RETURN QUERY SELECT d.* FROM waybill.order_details d WHERE d.tenant_id = p_tenant AND d.id = p_id;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.put_back_key OWNER waybill_owner
  -- Ends a lease early, for a call whose result is not known yet: after the wait a retry or the recoverer takes over.
  CREATE OR REPLACE FUNCTION waybill.put_back_key(p_tenant bigint, p_key text, p_lease_token uuid, p_wait interval)
   RETURNS void
   LANGUAGE sql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
    UPDATE waybill.idempotency_keys k SET lease_until = clock_timestamp() + p_wait
    WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.lease_token = p_lease_token
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.record_key_use OWNER waybill_owner
  -- Notes when keys were last used, in parallel arrays; a time never goes back. Acts as the tenant's system user.
  CREATE OR REPLACE FUNCTION waybill.record_key_use(p_tenant bigint, p_ids uuid[], p_times timestamp with time zone[])
   RETURNS void
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    -- Finds nobody, and so changes nothing, when the transaction belongs to another tenant.
    PERFORM waybill.set_context(p_tenant, u.id, '{system}', 'key use') FROM waybill.users u
    WHERE u.tenant_id = p_tenant AND u.kind = 'system';
    -- In the order of the ids, so that two processes can't deadlock.
    PERFORM 1 FROM waybill.api_keys k WHERE k.tenant_id = p_tenant AND k.id = ANY (p_ids) ORDER BY k.id FOR NO KEY UPDATE;
    UPDATE waybill.api_keys k SET last_used_at = w.used_at
    FROM unnest(p_ids, p_times) AS w(id, used_at)
    WHERE k.tenant_id = p_tenant AND k.id = w.id AND (k.last_used_at IS NULL OR k.last_used_at < w.used_at);
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.refund_snapshot OWNER waybill_owner
  CREATE OR REPLACE FUNCTION waybill.refund_snapshot(p_tenant bigint, p_refund uuid)
   RETURNS jsonb
   LANGUAGE plpgsql
   STABLE PARALLEL SAFE
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    RETURN (SELECT jsonb_build_object('id', r.id, 'paymentId', r.payment_id, 'providerRef', r.provider_ref, 'status', r.status,
        'version', r.version, 'amount', r.amount, 'tax', r.tax, 'reason', r.reason, 'declineCode', r.decline_code,
        'createdAt', to_char(r.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'updatedAt', to_char(r.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) FROM waybill.refunds r WHERE r.tenant_id = p_tenant AND r.id = p_refund);
  END
  $function$
  GRANT EXECUTE TO waybill_audit

FUNCTION waybill.refuse_change OWNER waybill_owner
  -- Trigger function that refuses; its argument is the sentence that says why. What it refuses is said by the trigger.
  CREATE OR REPLACE FUNCTION waybill.refuse_change()
   RETURNS trigger
   LANGUAGE plpgsql
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    RAISE EXCEPTION '% on %.% is refused: %', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[0]
      USING ERRCODE = 'WB002';
  END
  $function$

FUNCTION waybill.refuse_payment_amount OWNER waybill_owner
  CREATE OR REPLACE FUNCTION waybill.refuse_payment_amount(p_amount bigint, p_max bigint)
   RETURNS void
   LANGUAGE plpgsql
   STABLE
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    RAISE EXCEPTION 'an amount of % is not between 1 and %', p_amount, p_max
      USING ERRCODE = 'WB032', DETAIL = jsonb_build_object('amount', p_amount, 'max', p_max)::text;
  END
  $function$

FUNCTION waybill.refuse_payment_step OWNER waybill_owner
  CREATE OR REPLACE FUNCTION waybill.refuse_payment_step(p_payment waybill.payments, p_to text)
   RETURNS void
   LANGUAGE plpgsql
   STABLE
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    IF p_payment.status IN ('processing', 'capturing', 'voiding', 'needs_reconciliation') THEN
      RAISE EXCEPTION 'payment % is %: what was begun must end first', p_payment.id, p_payment.status
        USING ERRCODE = 'WB030', DETAIL = jsonb_build_object('paymentId', p_payment.id, 'status', p_payment.status)::text;
    END IF;
    RAISE EXCEPTION 'payment % cannot go from % to %', p_payment.id, p_payment.status, p_to
      USING ERRCODE = 'WB010', DETAIL = jsonb_build_object('from', p_payment.status, 'to', p_to, 'allowed', coalesce((
        SELECT jsonb_agg(t.to_state ORDER BY t.to_state) FROM waybill.valid_transitions t
        WHERE t.machine = 'payment' AND t.from_state = p_payment.status AND t.roles <> '{system}'), '[]'::jsonb))::text;
  END
  $function$

FUNCTION waybill.refuse_unless_audit OWNER waybill_owner
  CREATE OR REPLACE FUNCTION waybill.refuse_unless_audit()
   RETURNS trigger
   LANGUAGE plpgsql
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    IF current_user <> 'waybill_audit' THEN
      RAISE EXCEPTION '% on %.% is refused: %', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[0] USING ERRCODE = 'WB002';
    END IF;
    RETURN NULL;
  END
  $function$

FUNCTION waybill.refuse_while_paying OWNER waybill_owner
  -- BEFORE UPDATE … FOR EACH ROW of orders: not while a payment is live. A new payment locks the order, so none slips in.
  CREATE OR REPLACE FUNCTION waybill.refuse_while_paying()
   RETURNS trigger
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_payment record;
  BEGIN
    SELECT p.id, p.status INTO v_payment FROM waybill.payments p
    WHERE p.tenant_id = NEW.tenant_id AND p.order_id = NEW.id AND p.status NOT IN ('declined', 'voided', 'refunded');
    IF FOUND THEN
      RAISE EXCEPTION 'order % has a live payment %, which is %', NEW.id, v_payment.id, v_payment.status
        USING ERRCODE = 'WB030', DETAIL = jsonb_build_object('paymentId', v_payment.id, 'status', v_payment.status)::text,
              HINT = 'Void it or refund it first.';
    END IF;
    RETURN NEW;
  END
  $function$

FUNCTION waybill.refuse_writes OWNER waybill_owner
  -- Makes this transaction refuse every later write, since its idempotency key is not its to use. Returns its argument.
  CREATE OR REPLACE FUNCTION waybill.refuse_writes(p_outcome text)
   RETURNS text
   LANGUAGE plpgsql
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    RETURN set_config('waybill.key_refused', p_outcome, true);
  END
  $function$

FUNCTION waybill.require_admin OWNER waybill_owner
  CREATE OR REPLACE FUNCTION waybill.require_admin()
   RETURNS void
   LANGUAGE plpgsql
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    IF NOT coalesce(string_to_array(current_setting('waybill.roles', true), ','), '{}') && '{admin,system}' THEN
      RAISE EXCEPTION 'Users and API keys are changed only by one of the roles admin, system'
        USING ERRCODE = 'WB013', DETAIL = jsonb_build_object('roles', '["admin"]'::jsonb)::text,
              HINT = 'waybill.set_context says which roles the actor holds.';
    END IF;
  END
  $function$

FUNCTION waybill.require_context OWNER waybill_owner
  CREATE OR REPLACE FUNCTION waybill.require_context()
   RETURNS trigger
   LANGUAGE plpgsql
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    IF nullif(current_setting('waybill.tenant_id', true), '') IS NULL
       OR nullif(current_setting('waybill.actor', true), '') IS NULL THEN
      RAISE EXCEPTION '% on %.% needs a tenant and an actor, and this transaction has none',
                      TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
        USING ERRCODE = 'WB001',
              HINT = 'First in the same transaction: SELECT waybill.set_context(tenant, actor, roles, request_id);';
    END IF;
    PERFORM waybill.require_key();
    RETURN NULL;
  END
  $function$

FUNCTION waybill.require_key OWNER waybill_owner
  -- Refuses where waybill.claim_key has refused the key of this transaction.
  CREATE OR REPLACE FUNCTION waybill.require_key()
   RETURNS void
   LANGUAGE plpgsql
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    IF nullif(current_setting('waybill.key_refused', true), '') IS NOT NULL THEN
      RAISE EXCEPTION 'this transaction''s idempotency key is not its to use: %', current_setting('waybill.key_refused')
        USING ERRCODE = 'WB021', HINT = 'Roll back, and answer by what waybill.claim_key said.';
    END IF;
  END
  $function$
  GRANT EXECUTE TO waybill_app
  GRANT EXECUTE TO waybill_audit
  GRANT EXECUTE TO waybill_sealer

FUNCTION waybill.revoke_api_key OWNER waybill_owner
  -- Revokes a key, if it is not revoked yet, and returns it; no row when there is none.
  CREATE OR REPLACE FUNCTION waybill.revoke_api_key(p_tenant bigint, p_id uuid)
   RETURNS SETOF waybill.api_keys
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    PERFORM waybill.require_admin();
    UPDATE waybill.api_keys k SET revoked_at = clock_timestamp()
    WHERE k.tenant_id = p_tenant AND k.id = p_id AND k.revoked_at IS NULL;
    RETURN QUERY SELECT k.* FROM waybill.api_keys k WHERE k.tenant_id = p_tenant AND k.id = p_id;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.set_context OWNER waybill_owner
  -- Says for the rest of this transaction which tenant it belongs to, who acts, with which roles, and for which request.
  CREATE OR REPLACE FUNCTION waybill.set_context(p_tenant bigint, p_actor uuid, p_roles text[], p_request_id text)
   RETURNS void
   LANGUAGE plpgsql
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    PERFORM set_config('waybill.tenant_id', coalesce(p_tenant::text, ''), true),
            set_config('waybill.actor', coalesce(p_actor::text, ''), true),
            set_config('waybill.roles', coalesce(array_to_string(p_roles, ','), ''), true),
            set_config('waybill.request_id', coalesce(p_request_id, ''), true);
  END
  $function$
  GRANT EXECUTE TO waybill_app
  GRANT EXECUTE TO waybill_sealer

FUNCTION waybill.settle_payment_attempt OWNER waybill_owner
  -- Writes down how an attempt ended: succeeded, refused, or needs_reconciliation when nobody can tell. An attempt that has ended is left as it is.
  CREATE OR REPLACE FUNCTION waybill.settle_payment_attempt(p_tenant bigint, p_attempt uuid, p_result text, p_provider_ref text, p_amount bigint, p_decline_code text)
   RETURNS SETOF waybill.payment_details
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_attempt waybill.payment_attempts;
    v_payment waybill.payments;
    v_amount bigint;
    v_tax bigint;
    v_settled timestamptz := CASE WHEN p_result <> 'needs_reconciliation' THEN clock_timestamp() END;
  BEGIN
    SELECT a.* INTO v_attempt FROM waybill.payment_attempts a WHERE a.tenant_id = p_tenant AND a.id = p_attempt;
    v_payment := waybill.lock_payment(p_tenant, v_attempt.payment_id);
    -- Again, under the lock: a webhook or another process may have settled it meanwhile.
    SELECT a.* INTO v_attempt FROM waybill.payment_attempts a WHERE a.tenant_id = p_tenant AND a.id = p_attempt;
    v_amount := coalesce(p_amount, v_attempt.amount);
    v_tax := CASE v_amount WHEN v_attempt.amount THEN v_attempt.tax
                           ELSE waybill.share_of_tax(v_amount, v_payment.amount, v_payment.tax) END;

    IF v_attempt.settled_at IS NOT NULL OR v_attempt.status = p_result THEN
      NULL;
    ELSIF v_attempt.operation = 'refund' THEN
      WITH attempt AS (
        UPDATE waybill.payment_attempts a SET status = p_result, decline_code = p_decline_code, settled_at = v_settled
        WHERE a.tenant_id = p_tenant AND a.id = p_attempt
      ), refund AS (
        UPDATE waybill.refunds r
        SET status = CASE p_result WHEN 'refused' THEN 'failed' ELSE p_result END,
            provider_ref = coalesce(r.provider_ref, p_provider_ref), decline_code = p_decline_code
        WHERE r.tenant_id = p_tenant AND r.id = v_attempt.refund_id
      )
      UPDATE waybill.payments p
      SET refunding = p.refunding - v_attempt.amount, refunding_tax = p.refunding_tax - v_attempt.tax,
          refunded = p.refunded + CASE p_result WHEN 'succeeded' THEN v_attempt.amount ELSE 0 END,
          refunded_tax = p.refunded_tax + CASE p_result WHEN 'succeeded' THEN v_attempt.tax ELSE 0 END,
          status = CASE WHEN p_result = 'succeeded' AND p.refunded + v_attempt.amount = p.captured THEN 'refunded' ELSE p.status END
      WHERE p.tenant_id = p_tenant AND p.id = v_attempt.payment_id AND p_result <> 'needs_reconciliation';
    ELSE
      WITH attempt AS (
        UPDATE waybill.payment_attempts a SET status = p_result, decline_code = p_decline_code, settled_at = v_settled
        WHERE a.tenant_id = p_tenant AND a.id = p_attempt
      )
      UPDATE waybill.payments p
      SET provider_ref = coalesce(p.provider_ref, p_provider_ref),
          decline_code = coalesce(p_decline_code, p.decline_code),
          authorized = CASE WHEN p_result = 'succeeded' AND v_attempt.operation = 'authorize' THEN v_amount ELSE p.authorized END,
          captured = CASE WHEN p_result = 'succeeded' AND v_attempt.operation = 'capture' THEN v_amount ELSE p.captured END,
          captured_tax = CASE WHEN p_result = 'succeeded' AND v_attempt.operation = 'capture' THEN v_tax ELSE p.captured_tax END,
          status = CASE p_result
            WHEN 'needs_reconciliation' THEN p_result
            WHEN 'refused' THEN CASE v_attempt.operation WHEN 'authorize' THEN 'declined' ELSE 'authorized' END
            ELSE CASE v_attempt.operation WHEN 'authorize' THEN 'authorized' WHEN 'capture' THEN 'captured' ELSE 'voided' END END
      WHERE p.tenant_id = p_tenant AND p.id = v_attempt.payment_id;
    END IF;
    RETURN QUERY SELECT d.* FROM waybill.payment_details d WHERE d.tenant_id = p_tenant AND d.id = v_attempt.payment_id;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.share_of_tax OWNER waybill_owner
  -- The tax in a part of an amount: in proportion, rounded half up, and never so that tax or net of the whole is exceeded.
  CREATE OR REPLACE FUNCTION waybill.share_of_tax(p_part bigint, p_whole bigint, p_whole_tax bigint)
   RETURNS bigint
   LANGUAGE sql
   IMMUTABLE PARALLEL SAFE STRICT
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
    SELECT least(p_part, p_whole_tax, greatest(p_part - (p_whole - p_whole_tax),
                                               round(p_part::numeric * p_whole_tax / p_whole)::bigint))
  $function$

FUNCTION waybill.start_call OWNER waybill_owner
  -- Puts on record, in the transaction that claimed the key, that a call is about to be made: of what, and under which name the other system knows it.
  CREATE OR REPLACE FUNCTION waybill.start_call(p_tenant bigint, p_key text, p_lease_token uuid, p_resource text, p_provider_ref text)
   RETURNS void
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  BEGIN
    UPDATE waybill.idempotency_keys k
    SET call_started_at = clock_timestamp(), resource = p_resource, provider_ref = p_provider_ref
    WHERE k.tenant_id = p_tenant AND k.idempotency_key = p_key AND k.lease_token = p_lease_token;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'key % of tenant % is no longer claimed by this worker', p_key, p_tenant USING ERRCODE = 'WB020';
    END IF;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.states_in_use OWNER waybill_owner
  -- The states that entities of a machine are in, all tenants together: nothing but their names. For the warning at the start.
  CREATE OR REPLACE FUNCTION waybill.states_in_use(p_machine text)
   RETURNS text[]
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_table regclass := (SELECT m.entity_table::regclass FROM waybill.machines m WHERE m.machine = p_machine);
    v_before text := current_setting('waybill.tenant_id', true);
    v_tenant bigint;
    v_state text;
    v_found text[] := '{}';
  BEGIN
    -- Tenant by tenant, as the policies want it, and from state to state by the index: a few look-ups a tenant, however
    -- many orders it has.
    FOR v_tenant IN SELECT t.id FROM waybill.tenants t LOOP
      PERFORM set_config('waybill.tenant_id', v_tenant::text, true);
      v_state := '';
      LOOP
        EXECUTE format('SELECT status FROM %s WHERE tenant_id = $1 AND status > $2 ORDER BY status LIMIT 1', v_table)
        INTO v_state USING v_tenant, v_state;
        EXIT WHEN v_state IS NULL;
        IF v_state <> ALL (v_found) THEN
          v_found := v_found || v_state;
        END IF;
      END LOOP;
    END LOOP;
    PERFORM set_config('waybill.tenant_id', coalesce(v_before, ''), true);
    RETURN v_found;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.sweep_keys OWNER waybill_owner
  -- Removes one batch of a tenant's expired keys, oldest first, as the tenant's system user. swept is null when another process is at it; backlog counts at most 100000.
  CREATE OR REPLACE FUNCTION waybill.sweep_keys(p_tenant bigint, p_limit integer, OUT swept integer, OUT backlog integer)
   RETURNS record
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_now timestamptz := clock_timestamp();
    v_system uuid;
  BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('waybill.sweep_keys'), hashint8(p_tenant)) THEN
      RETURN; -- another process sweeps this tenant
    END IF;
    PERFORM waybill.set_context(p_tenant, NULL, ARRAY['system'], 'sweep_keys');
    SELECT u.id INTO v_system FROM waybill.users u WHERE u.tenant_id = p_tenant AND u.subject = 'system';
    PERFORM waybill.set_context(p_tenant, v_system, ARRAY['system'], 'sweep_keys');
    -- Materialized: as a plain subquery it may run more than once within a join, and take more than a batch.
    WITH expired AS MATERIALIZED (
      SELECT e.idempotency_key FROM waybill.idempotency_keys e
      WHERE e.tenant_id = p_tenant AND e.expires_at <= v_now AND e.status <> 'processing'
      ORDER BY e.expires_at LIMIT least(p_limit, 10000) FOR UPDATE SKIP LOCKED
    )
    DELETE FROM waybill.idempotency_keys k USING expired
    WHERE k.tenant_id = p_tenant AND k.idempotency_key = expired.idempotency_key;
    GET DIAGNOSTICS swept = ROW_COUNT;
    SELECT count(*) INTO backlog FROM (
      SELECT FROM waybill.idempotency_keys e WHERE e.tenant_id = p_tenant AND e.expires_at <= v_now AND e.status <> 'processing'
      LIMIT 100000) rest;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.take_abandoned_key OWNER waybill_owner
  -- Takes over one key whose lease has lapsed while its call was under way; nulls when there is none. Workers don't wait for each other.
  CREATE OR REPLACE FUNCTION waybill.take_abandoned_key(p_tenant bigint, p_lease_token uuid, p_lease interval, OUT key text, OUT resource text, OUT provider_ref text, OUT call_started_at timestamp with time zone, OUT attempt integer)
   RETURNS record
   LANGUAGE sql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
    UPDATE waybill.idempotency_keys k
    SET lease_token = p_lease_token, lease_until = clock_timestamp() + p_lease, attempt = k.attempt + 1
    WHERE k.tenant_id = p_tenant AND k.idempotency_key = (
      SELECT e.idempotency_key FROM waybill.idempotency_keys e
      WHERE e.tenant_id = p_tenant AND e.lease_token IS NOT NULL AND e.lease_until <= statement_timestamp()
        AND e.call_started_at IS NOT NULL
      ORDER BY e.lease_until LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING k.idempotency_key, k.resource, k.provider_ref, k.call_started_at, k.attempt
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.tenant_ids OWNER waybill_owner
  -- The ids of all tenants, for background work that goes tenant by tenant.
  CREATE OR REPLACE FUNCTION waybill.tenant_ids()
   RETURNS SETOF bigint
   LANGUAGE sql
   STABLE SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
    SELECT t.id FROM waybill.tenants t ORDER BY t.id
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.transition_order OWNER waybill_owner
  -- Moves an order to another state and returns it; no row when there is no such order. Metadata is replaced unless null.
  CREATE OR REPLACE FUNCTION waybill.transition_order(p_tenant bigint, p_id uuid, p_to text, p_reason text, p_expected_version integer, p_metadata jsonb)
   RETURNS SETOF waybill.order_details
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_order waybill.orders := waybill.lock_order(p_tenant, p_id, p_expected_version);
  BEGIN
    IF v_order.status = p_to THEN
      RAISE EXCEPTION 'order % is already %', p_id, p_to
        USING ERRCODE = 'WB011', DETAIL = jsonb_build_object('state', p_to)::text;
    END IF;
    UPDATE waybill.orders o SET status = p_to, transition_reason = p_reason, metadata = coalesce(p_metadata, o.metadata)
    WHERE o.tenant_id = p_tenant AND o.id = p_id;
    RETURN QUERY SELECT d.* FROM waybill.order_details d WHERE d.tenant_id = p_tenant AND d.id = p_id;
  END
  $function$
  GRANT EXECUTE TO waybill_app

FUNCTION waybill.written_lines_add_up OWNER waybill_owner
  CREATE OR REPLACE FUNCTION waybill.written_lines_add_up()
   RETURNS trigger
   LANGUAGE plpgsql
   SECURITY DEFINER
   SET search_path TO 'pg_catalog', 'pg_temp'
  AS $function$
  DECLARE
    v_fixed record;
  BEGIN
    -- Here and not before the row: a new order's row is there only after the statement that inserts both.
    IF TG_OP = 'INSERT' THEN
      SELECT o.id, o.status INTO v_fixed
      FROM (SELECT DISTINCT tenant_id, order_id FROM written) w
      JOIN waybill.orders o ON o.tenant_id = w.tenant_id AND o.id = w.order_id AND o.status <> 'pending' LIMIT 1;
      IF FOUND THEN
        RAISE EXCEPTION 'the lines of order % are fixed: it is %', v_fixed.id, v_fixed.status USING ERRCODE = 'WB015';
      END IF;
    END IF;
    PERFORM waybill.check_order_amounts(w.tenant_id, w.order_id) FROM (SELECT DISTINCT tenant_id, order_id FROM written) w;
    RETURN NULL;
  END
  $function$

-- Default privileges ----------------------------------------------------------------------------------------------

DEFAULT FUNCTIONS OF waybill_audit
  EXECUTE TO waybill_audit

DEFAULT FUNCTIONS OF waybill_owner
  EXECUTE TO waybill_owner

-- State machines --------------------------------------------------------------------------------------------------

MACHINE order OF waybill.orders BEGINS AS pending
  confirmed -> canceled BY operator, admin WITH REASON
  confirmed -> shipped BY operator, admin
  pending -> canceled BY operator, admin WITH REASON
  pending -> confirmed BY operator, admin
  shipped -> delivered BY operator, admin

MACHINE payment OF waybill.payments BEGINS AS processing
  authorized -> captured BY system
  authorized -> capturing BY operator, admin
  authorized -> voided BY system
  authorized -> voiding BY operator, admin
  captured -> refunded BY operator, admin, system
  capturing -> authorized BY operator, admin, system
  capturing -> captured BY operator, admin, system
  capturing -> needs_reconciliation BY operator, admin, system
  needs_reconciliation -> authorized BY admin, system
  needs_reconciliation -> captured BY admin, system
  needs_reconciliation -> declined BY admin, system
  needs_reconciliation -> voided BY admin, system
  processing -> authorized BY operator, admin, system
  processing -> declined BY operator, admin, system
  processing -> needs_reconciliation BY operator, admin, system
  refunded -> captured BY system
  voiding -> authorized BY operator, admin, system
  voiding -> needs_reconciliation BY operator, admin, system
  voiding -> voided BY operator, admin, system

MACHINE refund OF waybill.refunds BEGINS AS processing
  needs_reconciliation -> failed BY admin, system
  needs_reconciliation -> succeeded BY admin, system
  processing -> failed BY operator, admin, system
  processing -> needs_reconciliation BY operator, admin, system
  processing -> succeeded BY operator, admin, system
  succeeded -> failed BY system
