import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Returns: a table with a machine, a history and audit events of its own. */
export class Returns1790000000002 implements MigrationInterface {
  async up(db: QueryRunner): Promise<void> {
    await this.table(db);
    await this.rules(db);
    await this.machine(db);
  }

  private async table(db: QueryRunner): Promise<void> {
    await db.query(`
CREATE TABLE waybill.returns (
  tenant_id         bigint NOT NULL,
  id                uuid NOT NULL,
  order_id          uuid NOT NULL,
  line_no           waybill.line_no NOT NULL,
  quantity          waybill.quantity NOT NULL,
  status            text COLLATE "C" NOT NULL DEFAULT 'requested',
  version           int NOT NULL DEFAULT 1,
  updated_at        timestamptz NOT NULL DEFAULT statement_timestamp(),
  transition_reason text,
  CONSTRAINT returns_pkey PRIMARY KEY (tenant_id, id),
  CONSTRAINT returns_line_fkey FOREIGN KEY (tenant_id, order_id, line_no)
    REFERENCES waybill.order_lines (tenant_id, order_id, line_no),
  CONSTRAINT returns_status_check CHECK (status IN ('requested', 'approved', 'rejected', 'received'))
)`);
    await db.query(`CREATE INDEX returns_order_idx ON waybill.returns (tenant_id, order_id)`);
    await db.query(`SELECT waybill.make_tenant_table('waybill.returns', 'a return is rejected, never deleted')`);
    await db.query(`GRANT INSERT, UPDATE ON waybill.returns TO waybill_app`);
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
CREATE TRIGGER returns_10_check BEFORE INSERT ON waybill.returns
  FOR EACH ROW EXECUTE FUNCTION waybill.check_return()`);
    await db.query(`
CREATE FUNCTION waybill.return_snapshot(r waybill.returns) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN json_build_object('id', r.id, 'orderId', r.order_id, 'lineNo', r.line_no, 'quantity', r.quantity,
                           'status', r.status, 'version', r.version,
                           'updatedAt', to_char(r.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'));
END
$$`);
  }

  private async machine(db: QueryRunner): Promise<void> {
    await db.query(`
INSERT INTO waybill.machines (machine, entity_table, initial_state) VALUES ('return', 'waybill.returns', 'requested')`);
    await db.query(`
INSERT INTO waybill.valid_transitions (machine, from_state, to_state, roles, requires_reason) VALUES
  ('return', 'requested', 'approved', '{operator,admin}', false),
  ('return', 'requested', 'rejected', '{operator,admin}', true),
  ('return', 'approved', 'received', '{operator,admin}', false)`);
    await db.query(`SELECT waybill.attach_machine('return', p_fixed => '{tenant_id,id,order_id,line_no,quantity}')`);
  }

  async down(db: QueryRunner): Promise<void> {
    await db.query(`SELECT waybill.detach_machine('return')`);
    await db.query(`
DROP FUNCTION waybill.return_snapshot;
DROP TABLE waybill.returns;
DROP FUNCTION waybill.check_return`);
  }
}
