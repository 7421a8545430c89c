import type { MigrationInterface, QueryRunner } from 'typeorm';

/** What migrations made, as far as it can be sabotaged by a few statements. Names are qualified by their schema. */
export interface ExpectedSchema {
  /** `table` to its triggers, with the ones that fire in replicas too. */
  triggers: Map<string, Map<string, 'origin' | 'always'>>;
  /** `table policy` */
  policies: Set<string>;
  /** Function to the bodies of its overloads. */
  functions: Map<string, Set<string>>;
  /** `role privilege kind object`, of tables, functions and schemas as a whole. */
  grants: Set<string>;
}

const TRIGGER = /^CREATE (?:OR REPLACE )?(?:CONSTRAINT )?TRIGGER (\w+)\s.*?\sON ([\w.]+)/is;
const ALWAYS = /^ALTER TABLE ([\w.]+) ENABLE ALWAYS TRIGGER (\w+)/i;
const DROP_TRIGGER = /^DROP TRIGGER (?:IF EXISTS )?(\w+) ON ([\w.]+)/i;
const DROP_TABLE = /^DROP TABLE (?:IF EXISTS )?([\w.,\s]+)/i;
const POLICY = /^CREATE POLICY (\w+) ON ([\w.]+)/i;
const DROP_POLICY = /^DROP POLICY (?:IF EXISTS )?(\w+) ON ([\w.]+)/i;
const FUNCTION = /^CREATE (?:OR REPLACE )?(?:FUNCTION|PROCEDURE) ([\w.]+)\s*\(.*?\bAS (\$\w*\$)(.*?)\2/is;
const REPLACES = /^CREATE OR REPLACE/i;
const DROP_FUNCTION = /^DROP FUNCTION (?:IF EXISTS )?([^;]+)/i;
const GRANT = /^(GRANT|REVOKE) ([A-Z, ]+?) ON (?:(TABLE|FUNCTION|SCHEMA) )?([\w.,\s]+?) (?:TO|FROM) ([\w,\s]+)$/i;

/**
 * Reads off the migrations themselves what the database must have: each runs against a recorder, so there is no second
 * list that somebody could forget.
 *
 * @throws whatever a migration throws that needs answers from a database
 */
export async function expectedSchema(applied: readonly MigrationInterface[]): Promise<ExpectedSchema> {
  const schema: ExpectedSchema = { triggers: new Map(), policies: new Set(), functions: new Map(), grants: new Set() };
  for (const migration of applied) {
    for (const statement of await statementsOf(migration)) record(schema, statement);
  }
  return schema;
}

async function statementsOf(migration: MigrationInterface): Promise<string[]> {
  const texts: string[] = [];
  const recorder = {
    query: (text: string): Promise<unknown[]> => {
      texts.push(...splitStatements(text));
      return Promise.resolve([]);
    },
  };
  await migration.up(recorder as unknown as QueryRunner);
  return texts;
}

/** At semicolons, but not inside of quotes and dollar quotes. */
function splitStatements(text: string): string[] {
  const parts = text.split(/(\$\w*\$.*?\$\w*\$|'(?:[^']|'')*'|--[^\n]*)/s);
  const statements = [''];
  parts.forEach((part, at) => {
    const isQuoted = at % 2 === 1;
    const [first = '', ...rest] = isQuoted ? [part.startsWith('--') ? '' : part] : part.split(';');
    statements[statements.length - 1] += first;
    statements.push(...rest);
  });
  return statements.map((statement) => statement.trim()).filter(Boolean);
}

function record(schema: ExpectedSchema, statement: string): void {
  const { triggers, policies } = schema;
  const [, trigger, triggerTable] = TRIGGER.exec(statement) ?? [];
  if (trigger && triggerTable) {
    if (!triggers.has(triggerTable)) triggers.set(triggerTable, new Map());
    triggers.get(triggerTable)?.set(trigger, 'origin');
  }
  const [, alwaysTable = '', always] = ALWAYS.exec(statement) ?? [];
  if (always) triggers.get(alwaysTable)?.set(always, 'always');
  const [, dropped, droppedFrom = ''] = DROP_TRIGGER.exec(statement) ?? [];
  if (dropped) triggers.get(droppedFrom)?.delete(dropped);
  for (const table of names(DROP_TABLE.exec(statement)?.[1])) triggers.delete(table);
  const [, policy, policyTable] = POLICY.exec(statement) ?? [];
  if (policy) policies.add(`${policyTable} ${policy}`);
  const [, goneName, goneTable] = DROP_POLICY.exec(statement) ?? [];
  if (goneName) policies.delete(`${goneTable} ${goneName}`);
  recordFunction(schema, statement);
  recordGrant(schema, statement);
}

function recordFunction({ functions, grants }: ExpectedSchema, statement: string): void {
  const [, name, , body] = FUNCTION.exec(statement) ?? [];
  if (name && body !== undefined) {
    // A replaced function may be one of several overloads; an unreplaced body of another one is rare and harmless.
    const bodies = REPLACES.test(statement) ? new Set<string>() : (functions.get(name) ?? new Set<string>());
    functions.set(name, bodies.add(body));
  }
  for (const gone of names(DROP_FUNCTION.exec(statement)?.[1]?.replace(/\([^)]*\)/g, ''))) {
    functions.delete(gone);
    for (const grant of grants) if (grant.endsWith(` FUNCTION ${gone}`)) grants.delete(grant);
  }
}

function recordGrant({ grants }: ExpectedSchema, statement: string): void {
  const [, verb = '', privileges = '', kind = 'TABLE', objects, roles] = GRANT.exec(statement) ?? [];
  for (const role of names(roles)) {
    if (role === 'PUBLIC') continue;
    for (const privilege of names(privileges)) {
      for (const object of names(objects)) {
        const grant = `${role} ${privilege} ${kind} ${object}`;
        if (verb.toUpperCase() === 'GRANT') grants.add(grant);
        else grants.delete(grant);
      }
    }
  }
}

function names(list: string | undefined): string[] {
  return (list ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter(Boolean);
}
