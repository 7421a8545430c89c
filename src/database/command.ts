import type { QueryResultRow } from 'pg';
import type { BoundStatement, NamedStatement } from './statement.js';
import type { TenantTransaction } from './tenant-transaction.js';

/** A function of the database that is called with its arguments by name, so that none can take another's place. */
export interface Command<Argument extends string> extends NamedStatement {
  arguments: readonly Argument[];
}

/**
 * @param name of the function in the schema `waybill`; its first parameter is `p_tenant`
 * @param columns what is selected of its result, as SQL
 * @param names of its other parameters: `unitPrices` is `p_unit_prices`
 */
export function command<const Argument extends string>(
  name: string,
  columns: string,
  names: readonly Argument[],
): Command<Argument> {
  const given = ['p_tenant', ...names.map(parameterOf)].map((parameter, index) => `${parameter} => $${index + 1}`);
  return { name, text: `SELECT ${columns} FROM waybill.${name}(${given.join(', ')})`, arguments: names };
}

/** A command with what it is called with, for whoever sends statements. */
export function bind<Argument extends string>(
  { arguments: names, ...statement }: Command<Argument>,
  tenantId: number,
  given: Readonly<Record<Argument, unknown>>,
): BoundStatement {
  return { ...statement, values: [tenantId, ...names.map((argument) => given[argument])] };
}

/** Calls a command for the tenant of the transaction. */
export function call<Row extends QueryResultRow, Argument extends string>(
  tx: TenantTransaction,
  called: Command<Argument>,
  given: Readonly<Record<Argument, unknown>>,
): Promise<Row[]> {
  const statement = bind(called, tx.context.tenantId, given);
  return tx.rows<Row>(statement, statement.values);
}

function parameterOf(name: string): string {
  return `p_${name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`;
}
