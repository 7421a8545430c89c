import { Injectable } from '@nestjs/common';
import { DiscoveryService } from '@nestjs/core';
import {
  FOLLOW_UP_SELECTOR,
  GUARD_NAME,
  HOOK_SELECTOR,
  type HookSelector,
  type TransitionFollowUpProvider,
  type TransitionGuardProvider,
  type TransitionHookProvider,
} from './transition-extensions.js';

export interface FoundHook {
  selector: HookSelector;
  provider: TransitionHookProvider;
}

export interface FoundFollowUp {
  selector: HookSelector;
  provider: TransitionFollowUpProvider;
}

/** Finds the providers of any module that are marked `@TransitionGuard`, `@TransitionHook` or `@AfterTransition`. */
@Injectable()
export class ExtensionFinder {
  constructor(private readonly discovery: DiscoveryService) {}

  /** @throws Error when two providers claim one name */
  guards(): Map<string, TransitionGuardProvider> {
    const guards = new Map<string, TransitionGuardProvider>();
    for (const { mark, provider } of this.marked<string, TransitionGuardProvider>(GUARD_NAME)) {
      if (guards.has(mark)) throw new Error(`Two providers are marked @TransitionGuard('${mark}'). Rename one.`);
      guards.set(mark, provider);
    }
    return guards;
  }

  hooks(): FoundHook[] {
    return this.marked<HookSelector, TransitionHookProvider>(HOOK_SELECTOR).map(({ mark, provider }) => ({
      selector: mark,
      provider,
    }));
  }

  followUps(): FoundFollowUp[] {
    return this.marked<HookSelector, TransitionFollowUpProvider>(FOLLOW_UP_SELECTOR).map(({ mark, provider }) => ({
      selector: mark,
      provider,
    }));
  }

  private marked<Mark, Provider>(key: string): { mark: Mark; provider: Provider }[] {
    return this.discovery.getProviders().flatMap(({ metatype, instance }) => {
      const mark = metatype && (Reflect.getMetadata(key, metatype) as Mark | undefined);
      return mark && instance ? [{ mark, provider: instance as Provider }] : [];
    });
  }
}
