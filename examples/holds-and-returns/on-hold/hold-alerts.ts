import { Injectable, Logger } from '@nestjs/common';
import { AfterTransition, type TransitionChange, type TransitionFollowUpProvider } from 'waybill/extension';

/** Tells the risk team of each hold, once it is really there. Here that is a line in the log. */
@Injectable()
@AfterTransition({ machine: 'order', to: 'on_hold' })
export class HoldAlerts implements TransitionFollowUpProvider {
  private readonly logger = new Logger(HoldAlerts.name);

  async run({ entityId, reason }: TransitionChange): Promise<void> {
    this.logger.log(`Order ${entityId} is on hold: ${reason}`);
  }
}
