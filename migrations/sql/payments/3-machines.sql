-- Steps that the provider decides are open to whoever's request hears of it first, and to the system for webhooks and
-- for attempts that nobody waits for. Steps that nobody here asked for are the system's alone.
INSERT INTO waybill.machines (machine, entity_table, initial_state) VALUES
  ('payment', 'waybill.payments', 'processing'), ('refund', 'waybill.refunds', 'processing');

INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles) VALUES
  ('payment', 'processing', 'authorized', '{operator,admin,system}'),
  ('payment', 'processing', 'declined', '{operator,admin,system}'),
  ('payment', 'processing', 'needs_reconciliation', '{operator,admin,system}'),
  ('payment', 'authorized', 'capturing', '{operator,admin}'),
  ('payment', 'authorized', 'voiding', '{operator,admin}'),
  ('payment', 'authorized', 'captured', '{system}'),
  ('payment', 'authorized', 'voided', '{system}'),
  ('payment', 'capturing', 'captured', '{operator,admin,system}'),
  ('payment', 'capturing', 'authorized', '{operator,admin,system}'),
  ('payment', 'capturing', 'needs_reconciliation', '{operator,admin,system}'),
  ('payment', 'voiding', 'voided', '{operator,admin,system}'),
  ('payment', 'voiding', 'authorized', '{operator,admin,system}'),
  ('payment', 'voiding', 'needs_reconciliation', '{operator,admin,system}'),
  ('payment', 'needs_reconciliation', 'authorized', '{admin,system}'),
  ('payment', 'needs_reconciliation', 'declined', '{admin,system}'),
  ('payment', 'needs_reconciliation', 'captured', '{admin,system}'),
  ('payment', 'needs_reconciliation', 'voided', '{admin,system}'),
  ('payment', 'declined', 'authorized', '{system}'),
  ('payment', 'declined', 'captured', '{system}'),
  ('payment', 'captured', 'refunded', '{operator,admin,system}'),
  ('payment', 'refunded', 'captured', '{system}'),
  ('refund', 'processing', 'succeeded', '{operator,admin,system}'),
  ('refund', 'processing', 'failed', '{operator,admin,system}'),
  ('refund', 'processing', 'needs_reconciliation', '{operator,admin,system}'),
  ('refund', 'needs_reconciliation', 'succeeded', '{admin,system}'),
  ('refund', 'needs_reconciliation', 'failed', '{admin,system}'),
  ('refund', 'succeeded', 'failed', '{system}');

CREATE FUNCTION waybill.keep_provider_ref(p_new anyelement, p_old anyelement) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF p_old.provider_ref IS NOT NULL AND p_new.provider_ref IS DISTINCT FROM p_old.provider_ref THEN
    RAISE EXCEPTION 'UPDATE on % is refused: a known provider_ref never changes', pg_typeof(p_new) USING ERRCODE = 'WB002';
  END IF;
END
$$;

COMMENT ON FUNCTION waybill.keep_provider_ref IS
  'A rule of payments and refunds: what the provider calls one, once that is known, is what it is called.';

SELECT waybill.attach_machine('payment',
  p_fixed => '{tenant_id,id,order_id,provider,currency,amount,tax,created_at}',
  p_rules => 'waybill.keep_provider_ref');

SELECT waybill.attach_machine('refund',
  p_fixed => '{tenant_id,id,payment_id,amount,tax,reason,cause,created_at}',
  p_rules => 'waybill.keep_provider_ref');
