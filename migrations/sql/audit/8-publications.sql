SET LOCAL ROLE waybill_audit;

CREATE TABLE audit.publications (
  tenant_id    bigint NOT NULL,
  generation   integer NOT NULL,
  size         bigint NOT NULL,
  note         text NOT NULL,
  published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT publications_pkey PRIMARY KEY (tenant_id, generation, size)
);

COMMENT ON TABLE audit.publications IS
  'Checkpoints as they were published: with the cosignatures of the witnesses, where there are some. What is signed and not here is known to nobody outside.';

COMMENT ON COLUMN audit.publications.generation IS 'Of the log''s name, from 1; one more after each restore.';

SELECT audit.make_append_only('audit.publications'), audit.make_sealers('audit.publications');

RESET ROLE;
