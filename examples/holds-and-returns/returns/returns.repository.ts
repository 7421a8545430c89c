import { Injectable } from '@nestjs/common';
import { v7 as uuid } from 'uuid';
import type { NamedStatement, TenantTransaction } from 'waybill/extension';
import type { ReturnDto } from './dto/return.dto.js';
import { returnError } from './returns.errors.js';

const COLUMNS = 'id, order_id AS "orderId", line_no AS "lineNo", quantity, status, version';

const INSERT: NamedStatement = {
  name: 'returns_insert',
  text: `INSERT INTO waybill.returns (tenant_id, id, order_id, line_no, quantity, status)
         SELECT $1, $2, $3, $4, $5, m.initial_state FROM waybill.machines m WHERE m.machine = 'return' RETURNING ${COLUMNS}`,
};
const FIND: NamedStatement = {
  name: 'returns_find',
  text: `SELECT ${COLUMNS} FROM waybill.returns WHERE tenant_id = $1 AND id = $2`,
};
const LOCK: NamedStatement = { name: 'returns_lock', text: `${FIND.text} FOR NO KEY UPDATE` };
const MOVE: NamedStatement = {
  name: 'returns_move',
  text: `UPDATE waybill.returns SET status = $3, transition_reason = $4 WHERE tenant_id = $1 AND id = $2 RETURNING ${COLUMNS}`,
};

/** Every query on the tables of returns. */
@Injectable()
export class ReturnsRepository {
  async insert(tx: TenantTransaction, orderId: string, lineNo: number, quantity: number): Promise<ReturnDto> {
    return one(await this.rows(tx, INSERT, [uuid(), orderId, lineNo, quantity]));
  }

  async find(tx: TenantTransaction, id: string): Promise<ReturnDto | undefined> {
    return (await this.rows(tx, FIND, [id]))[0];
  }

  async lock(tx: TenantTransaction, id: string): Promise<ReturnDto | undefined> {
    return (await this.rows(tx, LOCK, [id]))[0];
  }

  async move(tx: TenantTransaction, id: string, to: string, reason: string | null): Promise<ReturnDto> {
    return one(await this.rows(tx, MOVE, [id, to, reason]));
  }

  private async rows(tx: TenantTransaction, statement: NamedStatement, values: unknown[]): Promise<ReturnDto[]> {
    try {
      return await tx.rows<ReturnDto>(statement, [tx.context.tenantId, ...values]);
    } catch (error) {
      throw returnError(error);
    }
  }
}

function one([row]: ReturnDto[]): ReturnDto {
  if (!row) throw new Error('The statement returned no row');
  return row;
}
