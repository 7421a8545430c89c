/** An RFC 6901 pointer: '' is the whole document, '/lines/0/quantity' a member of it. */
export function toJsonPointer(path: readonly (string | number)[]): string {
  return path.map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}
