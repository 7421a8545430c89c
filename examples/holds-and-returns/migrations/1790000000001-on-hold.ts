import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Orders can be put on hold, and a note of each hold is kept. */
export class OnHold1790000000001 implements MigrationInterface {
  async up(db: QueryRunner): Promise<void> {
    await db.query(`
SELECT waybill.add_state('order', 'on_hold', '[
  { "from_state": "confirmed", "to_state": "on_hold", "roles": ["operator", "admin", "risk"], "requires_reason": true },
  { "from_state": "on_hold", "to_state": "confirmed", "roles": ["risk"], "guards": ["risk-reviewed"] },
  { "from_state": "on_hold", "to_state": "canceled", "roles": ["operator", "admin"], "requires_reason": true }
]')`);

    await db.query(`
CREATE TABLE waybill.order_holds (
  tenant_id bigint NOT NULL,
  order_id  uuid NOT NULL,
  held_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  reason    waybill.reason NOT NULL,
  CONSTRAINT order_holds_pkey PRIMARY KEY (tenant_id, order_id, held_at),
  CONSTRAINT order_holds_order_fkey FOREIGN KEY (tenant_id, order_id) REFERENCES waybill.orders (tenant_id, id)
)`);
    await db.query(`SELECT waybill.make_tenant_table('waybill.order_holds', 'holds are kept')`);
    await db.query(`GRANT INSERT ON waybill.order_holds TO waybill_app`);
  }

  async down(db: QueryRunner): Promise<void> {
    await db.query(`DROP TABLE waybill.order_holds`);
    await db.query(`DELETE FROM waybill.valid_transitions WHERE 'on_hold' IN (from_state, to_state)`);
  }
}
