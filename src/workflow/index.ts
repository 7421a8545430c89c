export {
  AfterTransition,
  type TransitionChange,
  type TransitionFollowUpProvider,
  TransitionGuard,
  type TransitionGuardProvider,
  TransitionHook,
  type TransitionHookProvider,
} from './transition-extensions.js';
export { type Step, StepFigures } from './step-figures.js';
export {
  alreadyInState,
  guardRefused,
  illegalTransition,
  reasonRequired,
  ReasonRequired,
  TransitionRoleRequired,
} from './workflow.errors.js';
export { WorkflowModule } from './workflow.module.js';
export { type PossibleTransition, WorkflowService } from './workflow.service.js';
