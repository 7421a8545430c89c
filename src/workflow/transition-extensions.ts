import { SetMetadata } from '@nestjs/common';
import type { TenantTransaction, TransactionContext } from '../database/index.js';

/** A change of state that is about to happen (guards) or has just happened (hooks), in the same transaction. */
export interface TransitionChange {
  machine: string;
  entityId: string;
  from: string;
  to: string;
  reason: string | null;
  /** Names the client's action: a digest of tenant and idempotency key, the same for every retry. Null where no key was used. */
  operationKey: string | null;
  /** Of the entity after the change; null while guards are asked. */
  version: number | null;
  /** Of the change's event in the audit trail; null while guards are asked. */
  eventId: string | null;
}

/** A change of state that somebody asks for. */
export type RequestedChange = Pick<TransitionChange, 'machine' | 'entityId' | 'to' | 'reason'>;

/** A change of state as the module that has the machine's table knows it. */
export type KnownChange = RequestedChange & Pick<TransitionChange, 'from'>;

/** How the module that has a machine's table moves one of its entities. All of it happens in one transaction. */
export interface Move<Locked extends { status: string }, Moved> {
  /** Locks the entity until the transaction ends. Throws where there is none, or not the version that was expected. */
  lock(): Promise<Locked>;
  /** Whether `move` needs what `lock` gives, whatever guards and hooks there are. */
  needsLock?: boolean;
  /** Makes the change. `locked` is null where nobody needed the state. */
  move(locked: Locked | null): Promise<Moved>;
  /** The entity once more, after hooks that may have changed it. */
  read(): Promise<Moved>;
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

/** Something that follows on a change of state, once it is committed: telling somebody, for instance. */
export interface TransitionFollowUpProvider {
  /**
   * Runs outside of the transaction and beside the answer. What it throws goes to the log, and a crash of the process loses
   * it: what must not be lost belongs into the transaction (a hook), or reads the feed of events.
   */
  run(change: TransitionChange, context: TransactionContext): Promise<void>;
}

/** Which changes a hook goes with; what is left out matches everything. */
export interface HookSelector {
  machine: string;
  from?: string;
  to?: string;
}

export const GUARD_NAME = 'waybill:transition-guard';
export const HOOK_SELECTOR = 'waybill:transition-hook';
export const FOLLOW_UP_SELECTOR = 'waybill:transition-follow-up';

/** Makes a provider the guard of this name. */
export const TransitionGuard = (name: string): ClassDecorator => SetMetadata(GUARD_NAME, name);

/** Makes a provider a hook on the changes that the selector matches. */
export const TransitionHook = (selector: HookSelector): ClassDecorator => SetMetadata(HOOK_SELECTOR, selector);

/** Makes a provider something that follows on the changes that the selector matches, after their commit. */
export const AfterTransition = (selector: HookSelector): ClassDecorator => SetMetadata(FOLLOW_UP_SELECTOR, selector);
