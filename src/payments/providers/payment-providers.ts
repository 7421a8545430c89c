import { Injectable } from '@nestjs/common';
import type { PaymentProvider } from './payment-provider.js';

/** The providers that this process can talk to, and the one that new payments go to. */
@Injectable()
export class PaymentProviders {
  constructor(
    private readonly providers: readonly PaymentProvider[],
    private readonly chosen: string,
  ) {}

  get forNewPayments(): PaymentProvider {
    return this.get(this.chosen);
  }

  find(name: string): PaymentProvider | undefined {
    return this.providers.find((provider) => provider.name === name);
  }

  /** @throws Error for a provider that payments of earlier days used and that is no longer set up */
  get(name: string): PaymentProvider {
    const provider = this.find(name);
    if (!provider) throw new Error(`Payments with ${name} can't be continued: set that provider up again`);
    return provider;
  }
}
