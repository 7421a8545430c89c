INSERT INTO waybill.machines (machine, entity_table, initial_state) VALUES ('order', 'waybill.orders', 'pending');

INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason) VALUES
  ('order', 'pending', 'confirmed', '{operator,admin}', false),
  ('order', 'confirmed', 'shipped', '{operator,admin}', false),
  ('order', 'shipped', 'delivered', '{operator,admin}', false),
  ('order', 'pending', 'canceled', '{operator,admin}', true),
  ('order', 'confirmed', 'canceled', '{operator,admin}', true);
