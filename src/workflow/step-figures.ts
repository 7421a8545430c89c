import { Injectable } from '@nestjs/common';
import type { TenantTransaction } from '../database/index.js';

/** A step of a state machine, by where it led. */
export interface Step {
  machine: string;
  to: string;
}

/** What /metrics shows of the steps that this process made. */
@Injectable()
export class StepFigures {
  private readonly counts = new Map<string, { step: Step; times: number }>();

  /** Counts a step once its transaction is committed; one that is rolled back, or run again, doesn't count. */
  countAtCommit(tx: TenantTransaction, { machine, to }: Step): void {
    tx.afterCommit(() => {
      const name = `${machine}/${to}`;
      const times = (this.counts.get(name)?.times ?? 0) + 1;
      this.counts.set(name, { step: { machine, to }, times });
      return Promise.resolve();
    });
  }

  /** Each step that was made since the start. */
  all(): { step: Step; times: number }[] {
    return [...this.counts.values()];
  }
}
