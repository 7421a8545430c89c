export { ReasonField, StateField } from './dto/step-fields.js';
export {
  AfterTransition,
  type KnownChange,
  type Move,
  type RequestedChange,
  type TransitionChange,
  type TransitionFollowUpProvider,
  TransitionGuard,
  type TransitionGuardProvider,
  TransitionHook,
  type TransitionHookProvider,
} from './transition-extensions.js';
export {
  alreadyInState,
  type GuardRefusal,
  guardRefused,
  illegalTransition,
  reasonRequired,
  ReasonRequired,
  TransitionRoleRequired,
} from './workflow.errors.js';
export { WorkflowModule } from './workflow.module.js';
export { type CommittedStep, type PossibleTransition, WorkflowService } from './workflow.service.js';
