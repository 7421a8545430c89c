import { Injectable } from '@nestjs/common';
import { type PeriodicTask, PeriodicTasks } from '../background/index.js';
import { errorReport } from '../common/index.js';
import { TransactionRunner } from '../database/index.js';
import { ApiKeysRepository } from './api-keys.repository.js';
import type { Credential } from './credential-cache.js';

const INTERVAL_MS = 10_000;

/** Milliseconds since 1970, by the key's id. */
type Uses = Map<string, number>;

/** Notes when API keys are used: in memory at each request, in the database every ten seconds and at the end. */
@Injectable()
export class KeyUseRecorder {
  private readonly task: PeriodicTask;
  private usesByTenant = new Map<number, Uses>();

  constructor(
    tasks: PeriodicTasks,
    private readonly transactions: TransactionRunner,
    private readonly apiKeys: ApiKeysRepository,
  ) {
    this.task = tasks.add(KeyUseRecorder.name, {
      name: 'key-use',
      failure: 'The last use of API keys could not be recorded',
      interval: INTERVAL_MS,
      first: 'within-interval',
      endsWithRound: true,
      run: () => this.write(),
    });
  }

  /** @param at milliseconds since 1970 */
  note({ principal: { tenantId }, keyId }: Credential, at: number = Date.now()): void {
    if (keyId !== null) this.keep(tenantId, keyId, at);
  }

  /** Writes what was noted, now. */
  flush(): Promise<void> {
    return this.task.runNow();
  }

  private keep(tenantId: number, keyId: string, at: number): void {
    const uses = this.usesByTenant.get(tenantId) ?? new Map<string, number>();
    uses.set(keyId, Math.max(at, uses.get(keyId) ?? 0));
    this.usesByTenant.set(tenantId, uses);
  }

  /**
   * One transaction a tenant. What can't be written now is kept for the next time.
   *
   * @throws AggregateError when that happened to a tenant, once all were tried
   */
  private async write(): Promise<void> {
    const noted = this.usesByTenant;
    this.usesByTenant = new Map();
    const failures: unknown[] = [];
    for (const [tenantId, uses] of noted) {
      try {
        await this.writeTenant(tenantId, uses);
      } catch (error) {
        for (const [keyId, at] of uses) this.keep(tenantId, keyId, at);
        failures.push(`tenant ${tenantId}: ${errorReport(error).message}`);
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, failures.join('; '));
  }

  private writeTenant(tenantId: number, uses: Uses): Promise<void> {
    const times = new Map([...uses].map(([keyId, at]) => [keyId, new Date(at).toISOString()]));
    // No actor: the function acts as the tenant's system user.
    const context = { tenantId, userId: null, roles: [], requestId: 'key use' };
    return this.transactions.run(context, 'write', (tx) => this.apiKeys.recordUse(tx, times));
  }
}
