import { type BeforeApplicationShutdown, Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import { TransactionRunner } from '../database/index.js';
import { ApiKeysRepository } from './api-keys.repository.js';
import type { Credential } from './credential-cache.js';

const INTERVAL_MS = 10_000;

/** Notes when API keys are used: in memory at each request, in the database every ten seconds and at the end. */
@Injectable()
export class KeyUseRecorder implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly logger = new Logger(KeyUseRecorder.name);
  /** By tenant: key's id to milliseconds since 1970. */
  private uses = new Map<number, Map<string, number>>();
  private timer: NodeJS.Timeout | undefined;
  private running: Promise<void> = Promise.resolve();

  constructor(
    private readonly transactions: TransactionRunner,
    private readonly apiKeys: ApiKeysRepository,
  ) {}

  onApplicationBootstrap(): void {
    this.timer = setInterval(() => void this.flush(), INTERVAL_MS).unref();
  }

  async beforeApplicationShutdown(): Promise<void> {
    clearInterval(this.timer);
    await this.flush();
  }

  note({ principal: { tenantId }, keyId }: Credential, at: number = Date.now()): void {
    if (keyId === null) return;
    const ofTenant = this.uses.get(tenantId) ?? new Map<string, number>();
    ofTenant.set(keyId, Math.max(at, ofTenant.get(keyId) ?? 0));
    this.uses.set(tenantId, ofTenant);
  }

  /** Writes what was noted, one transaction a tenant. What can't be written now is kept for the next time. */
  flush(): Promise<void> {
    this.running = this.running.then(() => this.write());
    return this.running;
  }

  private async write(): Promise<void> {
    const noted = this.uses;
    this.uses = new Map();
    for (const [tenantId, uses] of noted) {
      try {
        await this.writeTenant(tenantId, uses);
      } catch (error) {
        for (const [keyId, at] of uses) this.note({ principal: { tenantId }, keyId } as Credential, at);
        this.logger.warn(`The last use of API keys of tenant ${tenantId} could not be recorded: ${String(error)}`);
      }
    }
  }

  private writeTenant(tenantId: number, uses: ReadonlyMap<string, number>): Promise<void> {
    const times = new Map([...uses].map(([keyId, at]) => [keyId, new Date(at).toISOString()]));
    // No actor: the function acts as the tenant's system user.
    const context = { tenantId, userId: null, roles: [], requestId: 'key use' };
    return this.transactions.run(context, 'write', (tx) => this.apiKeys.recordUse(tx, times));
  }
}
