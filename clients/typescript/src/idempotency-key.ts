/** The name under which a key is sent. */
export const KEY_HEADER = 'Idempotency-Key';

/**
 * A key for one action, as a header. The client makes one for every write that brings none, which makes its own retries
 * safe. Make it yourself, once, where the action begins (the form opens, the job is taken), when the action may be sent
 * again later: by a second click, after a reload, by another process.
 */
export function idempotencyKey(): { [KEY_HEADER]: string } {
  return { [KEY_HEADER]: randomUuid() };
}

/** `crypto.randomUUID` exists only in secure contexts; a shop's staff page on plain HTTP in a local network is none. */
function randomUuid(): string {
  if (typeof crypto.randomUUID === 'function') return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
