/** An address that can't be used. The message begins with a verb, for whoever knows which setting the address is of. */
export class AddressError extends Error {
  override readonly name = 'AddressError';
}
