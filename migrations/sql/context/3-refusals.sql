CREATE FUNCTION waybill.refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% on %.% is refused: %', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[0]
    USING ERRCODE = 'WB002';
END
$$;

COMMENT ON FUNCTION waybill.refuse_change IS
  'Trigger function that refuses; its argument is the sentence that says why. What it refuses is said by the trigger.';

CREATE FUNCTION waybill.refuse_unless_audit() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_user <> 'waybill_audit' THEN
    RAISE EXCEPTION '% on %.% is refused: %', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[0] USING ERRCODE = 'WB002';
  END IF;
  RETURN NULL;
END
$$;
