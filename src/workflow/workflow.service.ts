import { Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import { DomainError } from '../problems/index.js';
import type { TenantTransaction } from '../database/index.js';
import { ExtensionFinder, type FoundFollowUp, type FoundHook } from './extension-finder.js';
import { allowedFrom, buildMachines, checkMachines, explainTransition, isKnownState, type Machine } from './machine.js';
import type { HookSelector, TransitionChange, TransitionGuardProvider } from './transition-extensions.js';
import { guardRefused, type GuardRefusal, ReasonRequired, TransitionRoleRequired } from './workflow.errors.js';
import { StepFigures } from './step-figures.js';
import { WorkflowRepository } from './workflow.repository.js';

/** A way out of an entity's present state, for one caller. */
export interface PossibleTransition {
  to: string;
  allowed: boolean;
  requiresReason: boolean;
  roles: string[];
  /** What stands in the way for this caller; empty when allowed. */
  blockedBy: GuardRefusal[];
}

/** The machines of the database, and the guards and hooks that modules bring for them. Loaded once, at the start. */
@Injectable()
export class WorkflowService implements OnApplicationBootstrap {
  private machines: ReadonlyMap<string, Machine> = new Map();
  private guards: ReadonlyMap<string, TransitionGuardProvider> = new Map();
  private hooks: readonly FoundHook[] = [];
  private readonly removedStates = new Map<string, readonly string[]>();
  private followUps: readonly FoundFollowUp[] = [];

  constructor(
    private readonly repository: WorkflowRepository,
    private readonly extensions: ExtensionFinder,
    private readonly steps: StepFigures,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    const [machines, rules] = await Promise.all([this.repository.machines(), this.repository.rules()]);
    this.machines = buildMachines(machines, rules);
    this.guards = this.extensions.guards();
    this.hooks = this.extensions.hooks();
    this.followUps = this.extensions.followUps();
    const problems = checkMachines(this.machines, new Set(this.guards.keys()));
    if (problems.length > 0) throw new Error(`The workflow tables cannot be served:\n  ${problems.join('\n  ')}`);
    for (const name of this.machines.keys()) await this.lookForRemovedStates(name);
  }

  all(): Machine[] {
    return [...this.machines.values()];
  }

  find(name: string): Machine | undefined {
    return this.machines.get(name);
  }

  machine(name: string): Machine {
    const machine = this.find(name);
    if (!machine) throw new Error(`There is no machine ${name} in waybill.machines`);
    return machine;
  }

  /** Whether moving there involves guards or hooks, so that the entity must be locked and its state known before. */
  isExtended(machineName: string, to: string): boolean {
    const guarded = this.machine(machineName).rules.some((rule) => rule.to === to && rule.guards.length > 0);
    const followed = [...this.hooks, ...this.followUps];
    return guarded || followed.some(({ selector }) => selector.machine === machineName && (selector.to ?? to) === to);
  }

  /**
   * Asks the guards of a rule, but only on behalf of somebody who may take it: who may not, or who lacks the reason, is
   * told that and learns nothing of the guards. A change without a rule has no guards; the database refuses it.
   *
   * @throws DomainError `role-required`, `reason-required`, or `guard-refused` that lists every guard that refuses
   */
  async askGuards(tx: TenantTransaction, change: TransitionChange): Promise<void> {
    const attempt = { roles: tx.context.roles, hasReason: change.reason !== null };
    const decision = explainTransition(this.machine(change.machine), change.from, change.to, attempt);
    if (decision.kind === 'role-required') throw new TransitionRoleRequired(decision.roles);
    if (decision.kind === 'reason-required') throw new ReasonRequired();
    const refusals = await this.refusals(tx, decision.kind === 'allowed' ? decision.rule.guards : [], change);
    if (refusals.length === 0) return;
    throw new DomainError(guardRefused, refusals.map(({ detail }) => detail).join(' '), { guards: refusals });
  }

  /**
   * Runs the hooks of a change that has just been made; what one throws undoes the transaction. What follows on the change
   * is left for the time after the commit, and so is counting it.
   */
  async runHooks(tx: TenantTransaction, change: TransitionChange): Promise<void> {
    this.steps.countAtCommit(tx, change);
    for (const { selector, provider } of this.hooks) {
      if (matches(selector, change)) await provider.run(tx, change);
    }
    for (const { selector, provider } of this.followUps) {
      if (matches(selector, change)) tx.afterCommit(() => provider.run(change, tx.context));
    }
  }

  /** Every way out of a state, and what blocks it for the caller of this transaction. */
  async possible(
    tx: TenantTransaction,
    machineName: string,
    entityId: string,
    from: string,
  ): Promise<PossibleTransition[]> {
    const machine = this.machine(machineName);
    const possible: PossibleTransition[] = [];
    for (const { to, roles, requiresReason, guards } of allowedFrom(machine, from)) {
      const change = { machine: machineName, entityId, from, to, reason: null };
      const decision = explainTransition(machine, from, to, { roles: tx.context.roles, hasReason: true });
      const blockedBy = await this.refusals(tx, guards, change);
      if (decision.kind === 'role-required') {
        blockedBy.unshift({ code: 'role-required', detail: `It takes one of the roles ${roles.join(', ')}.` });
      }
      possible.push({ to, allowed: blockedBy.length === 0, requiresReason, roles, blockedBy });
    }
    return possible;
  }

  /** A state that no transition names any more can be read, and nothing leads out of it. */
  knowsState(machineName: string, state: string): boolean {
    return isKnownState(this.machine(machineName), state);
  }

  /** Whether an entity can be in this state: also in one that was removed while entities were in it. */
  isOccupiable(machineName: string, state: string): boolean {
    return this.knowsState(machineName, state) || this.removedStates.get(machineName)?.includes(state) === true;
  }

  /** Says in the log that entities are in states that the machine no longer has. */
  private async lookForRemovedStates(machineName: string): Promise<void> {
    const states = await this.repository.statesInUse(machineName);
    const removed = states.filter((state) => !this.knowsState(machineName, state));
    this.removedStates.set(machineName, removed);
    if (removed.length === 0) return;
    new Logger(WorkflowService.name).warn(
      `There are entities of machine '${machineName}' in ${removed.map((state) => `'${state}'`).join(', ')}, ` +
        'which no row of waybill.valid_transitions names: add transitions that lead out of there.',
    );
  }

  private async refusals(
    tx: TenantTransaction,
    guards: readonly string[],
    change: TransitionChange,
  ): Promise<GuardRefusal[]> {
    const refusals: GuardRefusal[] = [];
    for (const name of guards) {
      const detail = await this.guards.get(name)?.refuse(tx, change);
      if (detail) refusals.push({ code: name, detail });
    }
    return refusals;
  }
}

function matches({ machine, from, to }: HookSelector, change: TransitionChange): boolean {
  return machine === change.machine && (from ?? change.from) === change.from && (to ?? change.to) === change.to;
}
