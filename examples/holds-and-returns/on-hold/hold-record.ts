import { Injectable } from '@nestjs/common';
import {
  type NamedStatement,
  type TenantTransaction,
  type TransitionChange,
  TransitionHook,
  type TransitionHookProvider,
} from 'waybill/extension';

const INSERT: NamedStatement = {
  name: 'holds_insert',
  text: 'INSERT INTO waybill.order_holds (tenant_id, order_id, reason) VALUES ($1, $2, $3)',
};

/** Keeps a note of each hold, in the transaction that makes it: both happen, or neither. */
@Injectable()
@TransitionHook({ machine: 'order', to: 'on_hold' })
export class HoldRecord implements TransitionHookProvider {
  async run(tx: TenantTransaction, { entityId, reason }: TransitionChange): Promise<void> {
    await tx.rows(INSERT, [tx.context.tenantId, entityId, reason]);
  }
}
