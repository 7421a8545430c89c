import { SetMetadata } from '@nestjs/common';
import type { TenantTransaction } from '../database/index.js';

/** A change of state that is about to happen (guards) or has just happened (hooks), in the same transaction. */
export interface TransitionChange {
  machine: string;
  entityId: string;
  from: string;
  to: string;
  reason: string | null;
}

/** A condition that a row of `valid_transitions` names. The entity's row is locked while it is asked. */
export interface TransitionGuardProvider {
  /** Why the change may not happen now, as a sentence for the caller; null lets it pass. */
  refuse(tx: TenantTransaction, change: TransitionChange): Promise<string | null>;
}

/** Something that has to happen together with a change of state, or not at all. What it throws undoes the change. */
export interface TransitionHookProvider {
  run(tx: TenantTransaction, change: TransitionChange): Promise<void>;
}

/** Which changes a hook goes with; what is left out matches everything. */
export interface HookSelector {
  machine: string;
  from?: string;
  to?: string;
}

export const GUARD_NAME = 'waybill:transition-guard';
export const HOOK_SELECTOR = 'waybill:transition-hook';

/** Makes a provider the guard of this name. */
export const TransitionGuard = (name: string): ClassDecorator => SetMetadata(GUARD_NAME, name);

/** Makes a provider a hook on the changes that the selector matches. */
export const TransitionHook = (selector: HookSelector): ClassDecorator => SetMetadata(HOOK_SELECTOR, selector);
