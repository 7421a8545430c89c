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
   * What the key keeps in place of an answer that holds a secret, which is stored nowhere: made from the handler's result, and
   * sent to a retry.
   */
  kept?: (result: never) => unknown;
  /**
   * The handler begins while its key is being claimed, and runs in vain where the key is refused: for handlers that do nothing
   * outside of their transaction. Their first statement leaves together with the claim where PostgreSQL refuses it without
   * one (`NamedStatement.isRefusedUnclaimed`), which saves a round trip; any other waits.
   */
  besideClaim?: boolean;
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
