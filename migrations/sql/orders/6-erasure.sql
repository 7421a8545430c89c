GRANT UPDATE (version) ON waybill.orders TO waybill_audit;

SET LOCAL ROLE waybill_audit;

CREATE FUNCTION audit.erase_contacts(p_tenant bigint, p_orders uuid[]) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION audit.erase_contacts IS
  'Deletes the contacts of orders in all their versions, with their salts, and appends customer.erased to each order''s stream. For waybill.erase_customer.';

GRANT EXECUTE ON FUNCTION audit.erase_contacts TO waybill_owner;

RESET ROLE;

CREATE FUNCTION waybill.erase_customer(p_tenant bigint, p_customer_ref text, p_limit int)
RETURNS TABLE (known boolean, erased int, remaining boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
$$;

COMMENT ON FUNCTION waybill.erase_customer IS
  'Erases the personal data of at most p_limit of a customer''s orders. Says whether there is such a customer, how many orders were erased, and whether some are left.';

GRANT EXECUTE ON FUNCTION waybill.erase_customer TO waybill_app;
