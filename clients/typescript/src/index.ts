export { createWaybillClient, type WaybillClient, type WaybillOptions } from './client.js';
export { idempotencyKey } from './idempotency-key.js';
export type { ListItem, ListPath, ListQuery } from './pages.js';
export { type Problem, type ProblemCode, type ProblemOf, WaybillError } from './problem.js';
export { ReceiptError, type ReceiptFault, type ReceiptTrust, type VerifiedReceipt, verifyReceipt } from './receipt.js';
export type { ReceiptEvent } from './receipt-entry.js';
export type { Retry, RetryOptions } from './retrying-fetch.js';
export type { components, operations, paths } from './schema.js';
