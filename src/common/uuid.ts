const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Whether a text is a uuid of any version as PostgreSQL writes it: in lower case, with hyphens. */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}
