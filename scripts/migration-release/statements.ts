import { keyOf, type SchemaObject } from '../../src/database/schema/schema-object.js';
import type { Difference } from './difference.js';

/** Stands where a person has to write; nothing with it in it is released. */
export const MARK = 'FILL IN';

/** The statements of a step, each run as the role that owns what it is about. */
export function statementsOf({ drop, alter, create }: Difference): string {
  const parts = [
    // A function may use what only comes after it.
    ...(create.some(({ kind }) => kind === 'function') ? ['SET LOCAL check_function_bodies = off;'] : []),
    inRoles(drop.map((object) => ({ owner: object.owner, text: object.drop }))),
    ...(alter.length > 0 ? [placeFor(alter)] : []),
    inRoles(create.map((object) => ({ owner: makerOf(object), text: object.create }))),
  ];
  return parts.filter(Boolean).join('\n\n');
}

/** A schema is made by the role that migrates, for whoever owns it. */
function makerOf({ kind, owner }: SchemaObject): string {
  return kind === 'schema' ? 'waybill_owner' : owner;
}

function inRoles(statements: readonly { owner: string; text: string }[]): string {
  let role = 'waybill_owner';
  const lines: string[] = [];
  for (const { owner, text } of [...statements, { owner: 'waybill_owner', text: '' }]) {
    if (owner !== role) lines.push(owner === 'waybill_owner' ? 'RESET ROLE;' : `SET LOCAL ROLE ${owner};`);
    role = owner;
    if (text) lines.push(text);
  }
  return lines.join('\n\n');
}

function placeFor(alter: Difference['alter']): string {
  return [
    `-- ${MARK} what ALTER has to do between these, and with which rows. Then take this comment away.`,
    ...alter.flatMap(({ before, after }) => {
      const lines = [
        ...linesOf(before, after).map((line) => `--   before: ${line}`),
        ...linesOf(after, before).map((line) => `--   after:  ${line}`),
      ];
      const unseen = '--   the order of its parts, or its owner';
      return [`-- ${keyOf((before ?? after) as SchemaObject)}`, ...(lines.length > 0 ? lines : [unseen])];
    }),
  ].join('\n');
}

/** Lines of what makes the one that the other one hasn't. */
function linesOf(one?: SchemaObject, other?: SchemaObject): string[] {
  const lines = (object?: SchemaObject): string[] =>
    (object?.create ?? '').split('\n').map((line) => line.trim().replace(/,$/, ''));
  const common = new Set(lines(other));
  return lines(one).filter((line) => line && !common.has(line));
}
