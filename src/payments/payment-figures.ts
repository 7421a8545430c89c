import { Injectable } from '@nestjs/common';

/** What /metrics shows of payments in this process. */
@Injectable()
export class PaymentFigures {
  private untold = 0;

  /** Attempts since the start whose result nobody could tell, and which wait for a person. */
  get needsReconciliation(): number {
    return this.untold;
  }

  countUntold(): void {
    this.untold += 1;
  }
}
