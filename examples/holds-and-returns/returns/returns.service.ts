import { Injectable } from '@nestjs/common';
import {
  alreadyInState,
  DomainError,
  notFound,
  staleVersion,
  type TenantTransaction,
  WorkflowService,
} from 'waybill/extension';
import type { RequestReturnBody, ReturnDto } from './dto/return.dto.js';
import { ReturnsRepository } from './returns.repository.js';

@Injectable()
export class ReturnsService {
  constructor(
    private readonly returns: ReturnsRepository,
    private readonly workflow: WorkflowService,
  ) {}

  request(tx: TenantTransaction, orderId: string, { lineNo, quantity }: RequestReturnBody): Promise<ReturnDto> {
    return this.returns.insert(tx, orderId, lineNo, quantity);
  }

  async get(tx: TenantTransaction, id: string): Promise<ReturnDto> {
    return found(await this.returns.find(tx, id));
  }

  /** Moves a return along its machine. The row is locked from the first look to the commit. */
  async move(
    tx: TenantTransaction,
    id: string,
    to: string,
    reason: string | null,
    expectedVersion: number | null,
  ): Promise<ReturnDto> {
    const { status: from, version } = found(await this.returns.lock(tx, id));
    if (expectedVersion !== null && expectedVersion !== version) {
      throw new DomainError(staleVersion, `The return is at version ${version} by now.`, { current: version });
    }
    if (from === to) throw new DomainError(alreadyInState, `The return is already ${to}.`, { state: to });
    const change = { machine: 'return', entityId: id, from, to, reason };
    await this.workflow.askGuards(tx, change);
    const moved = await this.returns.move(tx, id, to, reason);
    await this.workflow.runHooks(tx, change);
    return moved;
  }
}

function found(one: ReturnDto | undefined): ReturnDto {
  if (!one) throw new DomainError(notFound, 'There is no such return.');
  return one;
}
