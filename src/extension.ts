/*
 * What extensions build on: `import { … } from 'waybill/extension'`. Everything here is kept working from version to version;
 * what isn't here may change any day.
 */
export {
  ApiProblems,
  defineProblem,
  DomainError,
  forbidden,
  integerMember,
  invalidParameter,
  malformedBody,
  memberOf,
  notFound,
  optionalMember,
  payloadTooLarge,
  preconditionRequired,
  type ProblemDefinition,
  type ProblemFault,
  roleRequired,
  staleVersion,
  textMember,
  textsMember,
  unavailable,
  unsupportedMediaType,
  validationFailed,
} from './problems/index.js';
export { entityTag, versionOfIfMatch } from './http/index.js';
export {
  AmountField,
  BooleanField,
  ChoiceField,
  CurrencyField,
  type FieldOptions,
  IntegerField,
  MetadataField,
  NoQuery,
  ObjectField,
  ObjectsField,
  PageQuery,
  PatternField,
  ReferenceField,
  TextField,
  TimestampField,
  UuidField,
  UuidParamPipe,
} from './validation/index.js';
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
export { MAX_LINES, MAX_QUANTITY, quantityExceeded } from './orders/index.js';
export {
  AfterTransition,
  alreadyInState,
  guardRefused,
  illegalTransition,
  ReasonField,
  reasonRequired,
  StateField,
  type TransitionChange,
  type TransitionFollowUpProvider,
  TransitionGuard,
  type TransitionGuardProvider,
  TransitionHook,
  type TransitionHookProvider,
  WorkflowModule,
  WorkflowService,
} from './workflow/index.js';
