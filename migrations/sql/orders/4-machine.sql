INSERT INTO waybill.machines (machine, entity_table, initial_state) VALUES ('order', 'waybill.orders', 'pending');

INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason) VALUES
  ('order', 'pending', 'confirmed', '{operator,admin}', false),
  ('order', 'confirmed', 'shipped', '{operator,admin}', false),
  ('order', 'shipped', 'delivered', '{operator,admin}', false),
  ('order', 'pending', 'canceled', '{operator,admin}', true),
  ('order', 'confirmed', 'canceled', '{operator,admin}', true);

SELECT waybill.attach_machine('order',
  p_fixed => '{tenant_id,id,number,channel,external_ref,customer_ref,currency,placed_at}',
  p_rules => 'waybill.check_order',
  p_erasure_type => 'customer.erased',
  p_parts => ',"lines":');
