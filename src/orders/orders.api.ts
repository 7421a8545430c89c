/* What several operations on orders have in the API document. */

export const ETAG = { ETag: { description: 'The version.', schema: { type: 'string' as const, example: '"1"' } } };
export const LOCATION = { Location: { description: 'Address of the order.', schema: { type: 'string' as const } } };
export const LINK = { Link: { description: 'RFC 8288: next and prev.', schema: { type: 'string' as const } } };
export const ORDER_ID = { name: 'id', format: 'uuid' };
