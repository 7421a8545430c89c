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
  ('payment', 'captured', 'refunded', '{operator,admin,system}'),
  ('payment', 'refunded', 'captured', '{system}'),
  ('refund', 'processing', 'succeeded', '{operator,admin,system}'),
  ('refund', 'processing', 'failed', '{operator,admin,system}'),
  ('refund', 'processing', 'needs_reconciliation', '{operator,admin,system}'),
  ('refund', 'needs_reconciliation', 'succeeded', '{admin,system}'),
  ('refund', 'needs_reconciliation', 'failed', '{admin,system}'),
  ('refund', 'succeeded', 'failed', '{system}');
