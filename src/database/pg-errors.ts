/** What PostgreSQL says of an error, as the driver or TypeORM throws it. */
export interface PostgresError {
  code: string;
  message: string;
  detail?: string;
  constraint?: string;
}

/** The PostgreSQL error in whatever was thrown, or undefined when it is none. */
export function postgresError(error: unknown): PostgresError | undefined {
  const inner = error instanceof Error && 'driverError' in error ? error.driverError : error;
  const isOne = inner instanceof Error && 'code' in inner && typeof inner.code === 'string' && inner.code.length === 5;
  return isOne ? (inner as Error & PostgresError) : undefined;
}

/** The JSON that Waybill's own refusals (SQLSTATE class WB) carry as DETAIL. */
export function refusalDetail<T>(error: PostgresError): T {
  return JSON.parse(error.detail ?? '{}') as T;
}

/** A violated constraint's name may come with a numeric suffix on a sharded server. */
export function violates(error: PostgresError, constraint: string): boolean {
  return error.code === '23505' && (error.constraint?.replace(/_\d+$/, '') ?? '') === constraint;
}

const SERIALIZATION_FAILURE = '40001';
const DEADLOCK = '40P01';

/** Whether a transaction that ended so may simply run again. */
export function isWorthRepeating(error: unknown): boolean {
  if (error instanceof CollisionError) return true;
  const code = postgresError(error)?.code;
  return code === SERIALIZATION_FAILURE || code === DEADLOCK;
}

/** Something drawn at random was taken already. Drawing again in a new transaction settles it. */
export class CollisionError extends Error {
  override readonly name = 'CollisionError';
}
