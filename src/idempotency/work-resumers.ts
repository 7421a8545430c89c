import { Injectable, type OnModuleInit } from '@nestjs/common';
import { DiscoveryService } from '@nestjs/core';
import type { TenantTransaction } from '../database/index.js';
import { type ExternalWorkResumer, RESUMED_KIND, type ResumedWork, type UnfinishedCall } from './external-work.js';

/** The providers marked `@ResumesExternalWork`, by kind. */
@Injectable()
export class WorkResumers implements OnModuleInit {
  private readonly byKind = new Map<string, ExternalWorkResumer>();

  constructor(private readonly discovery: DiscoveryService) {}

  /** @throws Error when two providers claim one kind */
  onModuleInit(): void {
    for (const { metatype, instance } of this.discovery.getProviders()) {
      const kind = metatype && (Reflect.getMetadata(RESUMED_KIND, metatype) as string | undefined);
      if (!kind || !instance) continue;
      if (this.byKind.has(kind)) throw new Error(`Two providers are marked @ResumesExternalWork('${kind}').`);
      this.byKind.set(kind, instance as ExternalWorkResumer);
    }
  }

  async resume(tx: TenantTransaction, call: UnfinishedCall): Promise<ResumedWork> {
    const [kind = ''] = call.resource.split('/', 1);
    const resumer = this.byKind.get(kind);
    if (!resumer)
      throw new Error(`No provider is marked @ResumesExternalWork('${kind}'), which ${call.resource} needs`);
    return resumer.resume(tx, call);
  }
}
