export { bootstrapCluster } from './bootstrap.js';
export { contextOf, type ContextualRequest, type Principal, type TransactionContext } from './context.js';
export { DatabaseModule } from './database.module.js';
export { installKillPoints, type KillPoint, reach, reportKillPointsToParent } from './kill-points.js';
export { migrate, migrateDown, migrationStatus } from './migrate.js';
export { CollisionError, postgresError, refusalDetail, violates } from './pg-errors.js';
export { type BoundStatement, type NamedStatement, TenantTransaction } from './tenant-transaction.js';
export { TransactionRunner } from './transaction-runner.js';
export { hasTransaction, Tx } from './tx.decorator.js';
