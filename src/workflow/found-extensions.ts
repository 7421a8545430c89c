import { Injectable } from '@nestjs/common';
import { DiscoveryService } from '@nestjs/core';
import type { TenantTransaction } from '../database/index.js';
import {
  FOLLOW_UP_SELECTOR,
  GUARD_NAME,
  HOOK_SELECTOR,
  type HookSelector,
  type TransitionChange,
  type TransitionFollowUpProvider,
  type TransitionGuardProvider,
  type TransitionHookProvider,
} from './transition-extensions.js';
import type { GuardRefusal } from './workflow.errors.js';

interface Selected<Provider> {
  selector: HookSelector;
  provider: Provider;
}

/** The providers of any module that are marked `@TransitionGuard`, `@TransitionHook` or `@AfterTransition`. */
@Injectable()
export class FoundExtensions {
  private guards: ReadonlyMap<string, TransitionGuardProvider> = new Map();
  private hooks: readonly Selected<TransitionHookProvider>[] = [];
  private followUps: readonly Selected<TransitionFollowUpProvider>[] = [];

  constructor(private readonly discovery: DiscoveryService) {}

  /** @throws Error when two guards claim one name */
  find(): void {
    const guards = new Map<string, TransitionGuardProvider>();
    for (const { mark, provider } of this.marked<string, TransitionGuardProvider>(GUARD_NAME)) {
      if (guards.has(mark)) throw new Error(`Two providers are marked @TransitionGuard('${mark}'). Rename one.`);
      guards.set(mark, provider);
    }
    this.guards = guards;
    this.hooks = this.selected<TransitionHookProvider>(HOOK_SELECTOR);
    this.followUps = this.selected<TransitionFollowUpProvider>(FOLLOW_UP_SELECTOR);
  }

  get guardNames(): ReadonlySet<string> {
    return new Set(this.guards.keys());
  }

  /** What the guards of these names say against a change. */
  async refusals(tx: TenantTransaction, names: readonly string[], change: TransitionChange): Promise<GuardRefusal[]> {
    const refusals: GuardRefusal[] = [];
    for (const name of names) {
      const detail = await this.guards.get(name)?.refuse(tx, change);
      if (detail) refusals.push({ code: name, detail });
    }
    return refusals;
  }

  /** Whether hooks or follow-ups may go with a change to this state, from whichever it comes. */
  goWith(machine: string, to: string): boolean {
    return [...this.hooks, ...this.followUps].some(
      ({ selector }) => selector.machine === machine && (selector.to ?? to) === to,
    );
  }

  /** Runs the hooks of a change and leaves its follow-ups for the time after the commit. @returns whether a hook ran */
  async run(tx: TenantTransaction, change: TransitionChange): Promise<boolean> {
    const hooks = this.hooks.filter(({ selector }) => matches(selector, change));
    for (const { provider } of hooks) await provider.run(tx, change);
    for (const { selector, provider } of this.followUps) {
      if (matches(selector, change)) tx.afterCommit(() => provider.run(change, tx.context));
    }
    return hooks.length > 0;
  }

  private selected<Provider>(key: string): Selected<Provider>[] {
    return this.marked<HookSelector, Provider>(key).map(({ mark, provider }) => ({ selector: mark, provider }));
  }

  private marked<Mark, Provider>(key: string): { mark: Mark; provider: Provider }[] {
    return this.discovery.getProviders().flatMap(({ metatype, instance }) => {
      const mark = metatype && (Reflect.getMetadata(key, metatype) as Mark | undefined);
      return mark && instance ? [{ mark, provider: instance as Provider }] : [];
    });
  }
}

function matches({ machine, from, to }: HookSelector, change: TransitionChange): boolean {
  return machine === change.machine && (from ?? change.from) === change.from && (to ?? change.to) === change.to;
}
