/** Members whose values never reach the log, wherever somebody put them. Pino compares the names case-sensitively. */
const SECRET_MEMBERS = [
  'authorization',
  'Authorization',
  'cookie',
  'Cookie',
  '["set-cookie"]',
  '["idempotency-key"]',
  'password',
  'secret',
  'token',
  'apiKey',
  'body',
  'parameters',
];
/** How deep an object is searched; deeper ones are no log entries. */
const PREFIXES = ['', '*.', '*.*.'];

/** Paths for pino's `redact`. */
export const redactedPaths: string[] = PREFIXES.flatMap((prefix) =>
  SECRET_MEMBERS.map((member) => (member.startsWith('[') ? `${prefix.replace(/\.$/, '')}${member}` : prefix + member)),
);

export const CENSORED = '[redacted]';
