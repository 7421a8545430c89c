/*
 * What extensions build on: `import { … } from 'waybill/extension'`. Everything here is kept working from version to version;
 * what isn't here may change any day.
 */
export { ApiProblems, DomainError, type ProblemCode } from './problems/index.js';
export { entityTag, versionOfIfMatch } from './http/index.js';
export { IsText, NoQuery, UuidParamPipe } from './validation/index.js';
export {
  AfterCommit,
  InTransaction,
  type MigrationClass,
  type NamedStatement,
  postgresError,
  type PostgresError,
  refusalDetail,
  TenantTransaction,
  type TransactionContext,
  TransactionRunner,
  Tx,
} from './database/index.js';
export type { WaybillExtension } from './extension-loader.js';
export { Idempotent } from './idempotency/index.js';
export { READERS, Roles, WRITERS } from './identity/index.js';
export {
  AfterTransition,
  type TransitionChange,
  type TransitionFollowUpProvider,
  TransitionGuard,
  type TransitionGuardProvider,
  TransitionHook,
  type TransitionHookProvider,
  WorkflowModule,
  WorkflowService,
} from './workflow/index.js';
