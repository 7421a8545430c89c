export interface IdempotentOptions {
  /**
   * What the answers show, such as `order`: with the answer's `id` it is stored as `order/<id>`. Give it when they hold
   * personal data, so that erasing a person finds them.
   */
  resource?: string;
  /**
   * The handler calls another system: it returns `ExternalWork` instead of an answer, and the call happens between two
   * transactions. What its answers show is then said by `prepare`.
   */
  external?: boolean;
  /**
   * The handler begins while its key is still being claimed, which saves a round trip. For handlers whose first statement
   * PostgreSQL refuses by itself where the key is refused: a write, or the lock of an order. They do nothing outside of
   * the transaction before that statement is answered.
   */
  early?: boolean;
}

export const IDEMPOTENT = 'waybill:idempotent';
export const KEY_HEADER = 'Idempotency-Key';

export function idempotentOptions(handler: object): IdempotentOptions | undefined {
  return Reflect.getMetadata(IDEMPOTENT, handler) as IdempotentOptions | undefined;
}

/** Whether a method must carry a key where it is accepted. */
export function requiresKey(method: string): boolean {
  return method === 'POST';
}
