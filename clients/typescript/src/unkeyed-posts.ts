/** Generated: the POSTs that take no Idempotency-Key, so that a repetition would do them twice. */
export const UNKEYED_POSTS: readonly string[] = [
  '/v1/api-keys',
  '/v1/audit/verification',
  '/v1/payment-webhooks/{provider}',
];
