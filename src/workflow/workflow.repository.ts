import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { call, command, type NamedStatement, type PostgresError, type TenantTransaction } from '../database/index.js';
import type { MachineRow, TransitionRule } from './machine.js';
import type { KnownChange } from './transition-extensions.js';

/** What a rule of the database has against a step now, as the step itself would be refused. */
export interface StepRefusal {
  to: string;
  refusal: PostgresError;
}

/** Reads the reference tables; they belong to no tenant. And asks the rules of `waybill.step_rules`. */
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

  /** The event of a change that this transaction has just made. */
  async eventOf(tx: TenantTransaction, { machine, entityId, to }: KnownChange): Promise<StepEvent> {
    const [event] = await tx.rows<StepEvent>(STEP_EVENT, [tx.context.tenantId, machine, entityId, to]);
    if (!event) throw new Error(`${machine} ${entityId} became ${to}, and there is no event of it`);
    return event;
  }

  /** What the database has against steps of an entity, by the rules that the steps themselves are refused by. */
  async stepRefusals(tx: TenantTransaction, machine: string, id: string): Promise<StepRefusal[]> {
    const rows = await call<RefusalRow, 'machine' | 'id'>(tx, STEP_REFUSALS, { machine, id });
    return rows.flatMap(({ states, refusal: { code, message, detail } }) =>
      states.map((to) => ({ to, refusal: { code, message, detail: JSON.stringify(detail) } })),
    );
  }
}

const STEP_REFUSALS = command('step_refusals', 'to_states AS states, refusal', ['machine', 'id']);

const STEP_EVENT: NamedStatement = {
  name: 'step_event',
  text: `SELECT version::int AS version, event_id AS "eventId" FROM audit.events
         WHERE tenant_id = $1 AND stream = $2 || '/' || $3 AND type = $2 || '.' || $4 ORDER BY version DESC LIMIT 1`,
};

interface StepEvent {
  version: number;
  eventId: string;
}

interface RefusalRow {
  states: string[];
  refusal: { code: string; message: string; detail?: unknown };
}
