CREATE TABLE waybill.machines (
  machine       text COLLATE "C" NOT NULL,
  entity_table  text NOT NULL,
  initial_state text COLLATE "C" NOT NULL,
  rule_version  int NOT NULL DEFAULT 0,
  rules         jsonb NOT NULL DEFAULT '[]',
  CONSTRAINT machines_pkey PRIMARY KEY (machine),
  CONSTRAINT machines_name_format CHECK (machine ~ '^[a-z][a-z0-9_]{0,62}$')
);

COMMENT ON COLUMN waybill.machines.entity_table IS
  'The table whose column status this machine rules.';

COMMENT ON COLUMN waybill.machines.rule_version IS
  'How often the machine''s rows of valid_transitions have changed; rules is what they were made to last. Both are kept by a trigger.';

CREATE TABLE waybill.valid_transitions (
  machine         text COLLATE "C" NOT NULL,
  from_state      text COLLATE "C" NOT NULL,
  to_state        text COLLATE "C" NOT NULL,
  roles           text[] NOT NULL,
  requires_reason boolean NOT NULL DEFAULT false,
  guards          text[] NOT NULL DEFAULT '{}',
  rule_version    int NOT NULL DEFAULT 0,
  CONSTRAINT valid_transitions_pkey PRIMARY KEY (machine, from_state, to_state),
  CONSTRAINT valid_transitions_machine_fkey FOREIGN KEY (machine) REFERENCES waybill.machines (machine),
  CONSTRAINT valid_transitions_moves CHECK (from_state <> to_state),
  CONSTRAINT valid_transitions_state_format CHECK (from_state ~ '^[a-z][a-z0-9_]{0,62}$' AND to_state ~ '^[a-z][a-z0-9_]{0,62}$')
);

-- The trigger functions that waybill.attach_machine makes hold the initial state as a constant.
CREATE TRIGGER machines_10_fixed BEFORE UPDATE ON waybill.machines FOR EACH ROW
  WHEN ((NEW.machine, NEW.entity_table, NEW.initial_state) IS DISTINCT FROM (OLD.machine, OLD.entity_table, OLD.initial_state))
  EXECUTE FUNCTION waybill.refuse_change('a machine keeps its table and its initial state');

GRANT SELECT ON waybill.machines, waybill.valid_transitions TO waybill_app, waybill_audit, waybill_sealer;
