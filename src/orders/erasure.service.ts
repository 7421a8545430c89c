import { Injectable } from '@nestjs/common';
import { isReference } from '../common/index.js';
import type { TenantTransaction } from '../database/index.js';
import { CustomerNotFound } from './orders.errors.js';
import { OrdersRepository } from './orders.repository.js';

/**
 * Orders of one request: each is an update with its event, so that many more would hold locks for too long. Who has
 * more of them asks again.
 */
export const ERASED_AT_ONCE = 2000;

export interface Erasure {
  customerRef: string;
  /** Orders whose personal data this request erased. */
  orders: number;
  /** False when there are more orders: ask again. */
  complete: boolean;
}

/** Erases the personal data of a customer; what remains can still be proven. */
@Injectable()
export class ErasureService {
  constructor(private readonly orders: OrdersRepository) {}

  async erase(tx: TenantTransaction, customerRef: string): Promise<Erasure> {
    // What no order can have isn't asked for; PostgreSQL couldn't even read some of it.
    if (!isReference(customerRef)) throw new CustomerNotFound();
    const { known, erased, remaining } = await this.orders.eraseCustomer(tx, customerRef, ERASED_AT_ONCE);
    if (!known) throw new CustomerNotFound();
    return { customerRef, orders: erased, complete: !remaining };
  }
}
