import { randomUUID } from 'node:crypto';
import { type BeforeApplicationShutdown, Injectable, Logger } from '@nestjs/common';
import { errorReport } from '../common/index.js';
import type { NamedStatement, TenantTransaction } from '../database/index.js';
import { NeverVerified, NoVerifierHere } from './audit.errors.js';
import type { RunningVerificationDto, VerificationDto } from './dto/verification.dto.js';
import type { Verifier } from './verify/verifier.js';

const LAST: NamedStatement = {
  name: 'audit_last_verification',
  text: `SELECT id, started_at AS "startedAt", finished_at AS "finishedAt", result FROM audit.verifications
         WHERE tenant_id = $1 ORDER BY finished_at DESC LIMIT 1`,
};

interface VerificationRow {
  id: string;
  startedAt: string;
  finishedAt: string;
  result: Omit<VerificationDto, 'id' | 'startedAt' | 'finishedAt'>;
}

/** Verifications over HTTP: one at a time for a tenant, beside the requests. */
@Injectable()
export class VerificationService implements BeforeApplicationShutdown {
  private readonly logger = new Logger(VerificationService.name);
  private readonly running = new Map<number, { started: RunningVerificationDto; done: Promise<void> }>();

  constructor(private readonly verifier: Verifier | null) {}

  async last(tx: TenantTransaction): Promise<VerificationDto> {
    const [row] = await tx.rows<VerificationRow>(LAST, [tx.context.tenantId]);
    if (!row) throw new NeverVerified();
    const { result, ...when } = row;
    return { ...when, ...result };
  }

  /** Starts one, or names the one that is running. */
  start(tenantId: number): RunningVerificationDto {
    if (!this.verifier) throw new NoVerifierHere();
    const current = this.running.get(tenantId);
    if (current) return current.started;
    const started = { id: randomUUID(), startedAt: new Date().toISOString().replace('Z', '000Z') };
    const done = this.run(this.verifier, tenantId, started).finally(() => this.running.delete(tenantId));
    this.running.set(tenantId, { started, done });
    return started;
  }

  private async run(verifier: Verifier, tenantId: number, started: RunningVerificationDto): Promise<void> {
    try {
      const { verdict, fault } = await verifier.verify(tenantId, started);
      if (verdict !== 'intact') this.logger.error(`Tenant ${tenantId} is ${verdict}: ${fault?.code}, ${fault?.detail}`);
    } catch (error) {
      const { message, stack } = errorReport(error);
      this.logger.error(`The verification of tenant ${tenantId} broke off: ${message}`, stack);
    }
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.verifier?.stop();
    await Promise.all([...this.running.values()].map(({ done }) => done));
  }
}
