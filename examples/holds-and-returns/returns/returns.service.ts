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

  /** Moves a return along its machine, with guards and hooks. */
  move(
    tx: TenantTransaction,
    id: string,
    to: string,
    reason: string | null,
    expectedVersion: number | null,
  ): Promise<ReturnDto> {
    const change = { machine: 'return', entityId: id, to, reason };
    return this.workflow.transition<ReturnDto, ReturnDto>(tx, change, {
      lock: () => this.lock(tx, id, expectedVersion),
      needsLock: true,
      move: (locked) => {
        if (locked?.status === to) throw new DomainError(alreadyInState, `The return is already ${to}.`, { state: to });
        return this.returns.move(tx, id, to, reason);
      },
      read: () => this.get(tx, id),
    });
  }

  private async lock(tx: TenantTransaction, id: string, expectedVersion: number | null): Promise<ReturnDto> {
    const locked = found(await this.returns.lock(tx, id));
    if (expectedVersion !== null && expectedVersion !== locked.version) {
      const detail = `The return is at version ${locked.version} by now.`;
      throw new DomainError(staleVersion, detail, { current: locked.version });
    }
    return locked;
  }
}

function found(one: ReturnDto | undefined): ReturnDto {
  if (!one) throw new DomainError(notFound, 'There is no such return.');
  return one;
}
