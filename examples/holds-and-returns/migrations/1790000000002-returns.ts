import type { MigrationInterface, QueryRunner } from 'typeorm';
import { tenantTable } from './tenant-table.js';

/** Returns: a table with a machine, a history and audit events of its own. */
export class Returns1790000000002 implements MigrationInterface {
  async up(db: QueryRunner): Promise<void> {
    await this.tables(db);
    await this.machine(db);
    await this.rules(db);
    await this.triggers(db);
  }

  private async tables(db: QueryRunner): Promise<void> {
    await db.query(`
CREATE TABLE waybill.returns (
  tenant_id         bigint NOT NULL,
  id                uuid NOT NULL,
  order_id          uuid NOT NULL,
  line_no           smallint NOT NULL,
  quantity          bigint NOT NULL,
  status            text COLLATE "C" NOT NULL,
  version           int NOT NULL DEFAULT 1,
  updated_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
  transition_reason text,
  CONSTRAINT returns_pkey PRIMARY KEY (tenant_id, id),
  CONSTRAINT returns_line_fkey FOREIGN KEY (tenant_id, order_id, line_no)
    REFERENCES waybill.order_lines (tenant_id, order_id, line_no),
  CONSTRAINT returns_quantity_positive CHECK (quantity > 0),
  CONSTRAINT returns_status_check CHECK (status IN ('requested', 'approved', 'rejected', 'received')),
  CONSTRAINT returns_transition_reason_passes CHECK (transition_reason IS NULL)
)`);
    await db.query(`CREATE INDEX returns_order_idx ON waybill.returns (tenant_id, order_id)`);
    await db.query(`
CREATE TABLE waybill.return_status_history (
  tenant_id   bigint NOT NULL,
  return_id   uuid NOT NULL,
  seq         int NOT NULL,
  from_status text COLLATE "C",
  to_status   text COLLATE "C" NOT NULL,
  changed_by  uuid NOT NULL,
  changed_at  timestamptz NOT NULL,
  reason      text,
  request_id  text,
  CONSTRAINT return_status_history_pkey PRIMARY KEY (tenant_id, return_id, seq),
  CONSTRAINT return_status_history_return_fkey FOREIGN KEY (tenant_id, return_id) REFERENCES waybill.returns (tenant_id, id),
  CONSTRAINT return_status_history_user_fkey FOREIGN KEY (tenant_id, changed_by) REFERENCES waybill.users (tenant_id, id)
)`);
    await db.query(tenantTable('returns', 'a return is rejected, never deleted'));
    await db.query(tenantTable('return_status_history', 'history is append-only'));
    await db.query(`GRANT INSERT, UPDATE ON waybill.returns TO waybill_app`);
  }

  private async machine(db: QueryRunner): Promise<void> {
    await db.query(`
INSERT INTO waybill.machines (machine, entity_table, initial_state) VALUES ('return', 'waybill.returns', 'requested')`);
    await db.query(`
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason) VALUES
  ('return', 'requested', 'approved', '{operator,admin}', false),
  ('return', 'requested', 'rejected', '{operator,admin}', true),
  ('return', 'approved', 'received', '{operator,admin}', false)`);
  }

  /** What holds for returns whoever asks. The order's row is locked, so that two requests can't both take the last unit. */
  private async rules(db: QueryRunner): Promise<void> {
    await db.query(`
CREATE FUNCTION waybill.check_return() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_status text;
  v_left bigint;
BEGIN
  SELECT o.status INTO v_status FROM waybill.orders o
  WHERE o.tenant_id = NEW.tenant_id AND o.id = NEW.order_id FOR NO KEY UPDATE;
  IF v_status <> 'delivered' THEN
    RAISE EXCEPTION 'order % is %: only what was delivered can be returned', NEW.order_id, v_status USING ERRCODE = 'WX001';
  END IF;
  SELECT l.quantity - coalesce(sum(r.quantity), 0) INTO v_left FROM waybill.order_lines l
  LEFT JOIN waybill.returns r
    ON r.tenant_id = l.tenant_id AND r.order_id = l.order_id AND r.line_no = l.line_no AND r.status <> 'rejected'
  WHERE l.tenant_id = NEW.tenant_id AND l.order_id = NEW.order_id AND l.line_no = NEW.line_no
  GROUP BY l.quantity;
  IF NEW.quantity > v_left THEN
    RAISE EXCEPTION 'line % of order % has % left to return, not %', NEW.line_no, NEW.order_id, v_left, NEW.quantity
      USING ERRCODE = 'WX002';
  END IF;
  RETURN NEW;
END
$$`);
    await db.query(`
CREATE FUNCTION waybill.return_snapshot(p_tenant bigint, p_return uuid) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  SELECT jsonb_build_object('id', r.id, 'orderId', r.order_id, 'lineNo', r.line_no, 'quantity', r.quantity,
                            'status', r.status, 'version', r.version,
                            'updatedAt', to_char(r.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
  FROM waybill.returns r WHERE r.tenant_id = p_tenant AND r.id = p_return
$$`);
    await db.query(`GRANT EXECUTE ON FUNCTION waybill.return_snapshot TO waybill_audit`);
  }

  private async triggers(db: QueryRunner): Promise<void> {
    await db.query(`
CREATE TRIGGER returns_10_identity BEFORE UPDATE ON waybill.returns FOR EACH ROW
  WHEN ((NEW.tenant_id, NEW.id, NEW.order_id, NEW.line_no, NEW.quantity)
        IS DISTINCT FROM (OLD.tenant_id, OLD.id, OLD.order_id, OLD.line_no, OLD.quantity))
  EXECUTE FUNCTION waybill.refuse_change('only the state of a return changes');
CREATE TRIGGER returns_10_insert BEFORE INSERT ON waybill.returns
  FOR EACH ROW EXECUTE FUNCTION waybill.guard_insert('return');
CREATE TRIGGER returns_20_check BEFORE INSERT ON waybill.returns
  FOR EACH ROW EXECUTE FUNCTION waybill.check_return();
CREATE TRIGGER returns_20_update BEFORE UPDATE ON waybill.returns
  FOR EACH ROW EXECUTE FUNCTION waybill.guard_update('return', 'waybill.return_status_history', 'return_id');
CREATE TRIGGER returns_30_history AFTER INSERT ON waybill.returns
  FOR EACH ROW EXECUTE FUNCTION waybill.begin_history('waybill.return_status_history', 'return_id');
CREATE TRIGGER returns_50_event_insert AFTER INSERT ON waybill.returns FOR EACH ROW
  EXECUTE FUNCTION audit.record_change('return', 'waybill.return_snapshot', 'waybill.return_status_history', 'return_id');
CREATE TRIGGER returns_50_event_update AFTER UPDATE ON waybill.returns FOR EACH ROW
  WHEN (NEW.version IS DISTINCT FROM OLD.version)
  EXECUTE FUNCTION audit.record_change('return', 'waybill.return_snapshot', 'waybill.return_status_history', 'return_id')`);
    await db.query(`
CREATE TRIGGER return_status_history_00_append_only BEFORE UPDATE ON waybill.return_status_history
  FOR EACH STATEMENT EXECUTE FUNCTION waybill.refuse_change('history is append-only')`);
  }

  async down(db: QueryRunner): Promise<void> {
    await db.query(`
DROP TABLE waybill.return_status_history, waybill.returns;
DROP FUNCTION waybill.return_snapshot, waybill.check_return;
DELETE FROM waybill.valid_transitions WHERE machine = 'return';
DELETE FROM waybill.machines WHERE machine = 'return'`);
  }
}
