import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { MachineRow, TransitionRule } from './machine.js';

/** Reads the reference tables; they belong to no tenant. */
@Injectable()
export class WorkflowRepository {
  constructor(private readonly dataSource: DataSource) {}

  machines(): Promise<MachineRow[]> {
    return this.dataSource.query(
      'SELECT machine, initial_state AS "initialState" FROM waybill.machines ORDER BY machine',
    );
  }

  rules(): Promise<TransitionRule[]> {
    return this.dataSource.query(
      `SELECT machine, from_state AS "from", to_state AS "to", roles, requires_reason AS "requiresReason", guards
       FROM waybill.valid_transitions ORDER BY machine, from_state, to_state`,
    );
  }

  /** The states that entities of a machine are in, all tenants together. */
  async statesInUse(machine: string): Promise<string[]> {
    const [row] = await this.dataSource.query<{ states: string[] }[]>('SELECT waybill.states_in_use($1) AS states', [
      machine,
    ]);
    return row?.states ?? [];
  }
}
