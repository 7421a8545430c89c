import { Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import type { PostgresError, TenantTransaction } from '../database/index.js';
import { DomainError } from '../problems/index.js';
import { FoundExtensions } from './found-extensions.js';
import { allowedFrom, buildMachines, checkMachines, explainTransition, isKnownState, type Machine } from './machine.js';
import type { KnownChange, Move, RequestedChange, TransitionChange } from './transition-extensions.js';
import { guardRefused, type GuardRefusal, ReasonRequired, TransitionRoleRequired } from './workflow.errors.js';
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

/** A step that was made, by where it led. */
export interface CommittedStep {
  machine: string;
  to: string;
}

type StepListener = (step: CommittedStep) => void;

/** The machines of the database, and the guards and hooks that modules bring for them. Loaded once, at the start. */
@Injectable()
export class WorkflowService implements OnApplicationBootstrap {
  private machines: ReadonlyMap<string, Machine> = new Map();
  private readonly removedStates = new Map<string, readonly string[]>();
  /** By machine: the states that `transition` leads to; left out where it leads to all. */
  private readonly decided = new Map<string, ReadonlySet<string>>();
  private readonly listeners: StepListener[] = [];

  constructor(
    private readonly repository: WorkflowRepository,
    private readonly extensions: FoundExtensions,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    const [machines, rules] = await Promise.all([this.repository.machines(), this.repository.rules()]);
    this.machines = buildMachines(machines, rules);
    this.extensions.find();
    const problems = checkMachines(this.machines, this.extensions.guardNames, this.decided);
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

  /**
   * Moves an entity to another state: asks the guards of the rule, has the module make the change, and runs the hooks. What
   * follows on the change is left for the time after the commit. The entity is locked first where anybody needs to know its
   * state; otherwise the change is one statement, whose rules are the database's.
   *
   * Guards are asked only on behalf of somebody who may take the step: who may not, or who lacks the reason, is told that and
   * learns nothing of the guards.
   *
   * @returns the entity as it is after the hooks
   * @throws DomainError `role-required`, `reason-required`, or `guard-refused` that lists every guard that refuses; and what
   *   `move` throws
   */
  async transition<Locked extends { status: string }, Moved>(
    tx: TenantTransaction,
    { machine, entityId, to, reason }: RequestedChange,
    move: Move<Locked, Moved>,
  ): Promise<Moved> {
    if (!move.needsLock && !this.isStateAskedFor(machine, to)) {
      const moved = await move.move(null);
      this.reportAtCommit(tx, { machine, to });
      return moved;
    }
    const locked = await move.lock();
    const change: KnownChange = { machine, entityId, from: locked.status, to, reason };
    await this.askGuards(tx, change);
    const moved = await move.move(locked);
    const hasRunHooks = await this.follow(tx, change);
    return hasRunHooks ? move.read() : moved;
  }

  /**
   * Takes note of steps that were made by what happened elsewhere, such as at a payment provider, in the transaction that
   * wrote them. No guard can refuse what has happened; hooks and what follows go with it as with any other step.
   */
  async record(tx: TenantTransaction, changes: readonly KnownChange[]): Promise<void> {
    for (const change of changes) await this.follow(tx, change);
  }

  /**
   * Says that somebody decides on a machine's steps to these states alone, and that all others come through `record`. A guard
   * on one of the others would never be asked, so the start refuses it. For `onModuleInit`.
   */
  onlyTheseAreDecided(machine: string, states: readonly string[]): void {
    this.decided.set(machine, new Set(states));
  }

  /** Tells of every step that this process made, once it is committed; one that is rolled back, or replayed, is none. */
  onCommittedStep(listener: StepListener): void {
    this.listeners.push(listener);
  }

  /**
   * Every way out of a state, and what blocks it for the caller of this transaction: the guards and the rules of the database that
   * the step itself would be refused by.
   *
   * @param explain the problem that a refusal of the database stands for
   */
  async possible(
    tx: TenantTransaction,
    { machine: name, entityId, from }: Pick<KnownChange, 'machine' | 'entityId' | 'from'>,
    explain: (refusal: PostgresError) => GuardRefusal,
  ): Promise<PossibleTransition[]> {
    const machine = this.machine(name);
    const ways = allowedFrom(machine, from);
    const refused = ways.length === 0 ? [] : await this.repository.stepRefusals(tx, name, entityId);
    const possible: PossibleTransition[] = [];
    for (const { to, roles, requiresReason, guards } of ways) {
      const change = { machine: name, entityId, from, to, reason: null };
      const decision = explainTransition(machine, from, to, { roles: tx.context.roles, hasReason: true });
      const blockedBy = [
        ...(decision.kind === 'role-required' ? [roleMissing(roles)] : []),
        ...(await this.extensions.refusals(tx, guards, asked(tx, change))),
        ...refused.filter((step) => step.to === to).map(({ refusal }) => explain(refusal)),
      ];
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

  /** Whether guards, hooks or follow-ups may be involved in moving there, who all need to know the state before. */
  private isStateAskedFor(machine: string, to: string): boolean {
    const isGuarded = this.machine(machine).rules.some((rule) => rule.to === to && rule.guards.length > 0);
    return isGuarded || this.extensions.goWith(machine, to);
  }

  /** A change without a rule has no guards; the database refuses it. */
  private async askGuards(tx: TenantTransaction, change: KnownChange): Promise<void> {
    const attempt = { roles: tx.context.roles, hasReason: change.reason !== null };
    const decision = explainTransition(this.machine(change.machine), change.from, change.to, attempt);
    if (decision.kind === 'role-required') throw new TransitionRoleRequired(decision.roles);
    if (decision.kind === 'reason-required') throw new ReasonRequired();
    const guards = decision.kind === 'allowed' ? decision.rule.guards : [];
    const refusals = await this.extensions.refusals(tx, guards, asked(tx, change));
    if (refusals.length === 0) return;
    throw new DomainError(guardRefused, refusals.map(({ detail }) => detail).join(' '), { guards: refusals });
  }

  /** What goes with a change that was made. @returns whether a hook ran */
  private async follow(tx: TenantTransaction, change: KnownChange): Promise<boolean> {
    this.reportAtCommit(tx, change);
    if (!this.extensions.goWith(change.machine, change.to)) return false;
    const made = { ...asked(tx, change), ...(await this.repository.eventOf(tx, change)) };
    return this.extensions.run(tx, made);
  }

  private reportAtCommit(tx: TenantTransaction, { machine, to }: CommittedStep): void {
    tx.afterCommit(async () => {
      for (const listener of this.listeners) listener({ machine, to });
    });
  }
}

function asked(tx: TenantTransaction, change: KnownChange): TransitionChange {
  return { ...change, operationKey: tx.context.operationKey ?? null, version: null, eventId: null };
}

function roleMissing(roles: readonly string[]): GuardRefusal {
  return { code: 'role-required', detail: `It takes one of the roles ${roles.join(', ')}.` };
}
