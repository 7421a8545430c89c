import { INVARIANTS } from './fault-checker.js';
import { ACTIONS, POINTS } from './fault-plan.js';
import type { RoundsReport } from './run-rounds.js';

const COLUMN = Math.max(...ACTIONS.map(({ length }) => length)) + 2;
const FIRST_COLUMN = Math.max(...POINTS.map(({ length }) => length));

/** A report for people: what struck where, what came back, what broke. */
export function summaryOf({ seed, rounds, requests, seconds, reached, struck, answers, broken }: RoundsReport): string {
  const counts = (of: Record<string, number>): string =>
    Object.entries(of)
      .toSorted(([, a], [, b]) => b - a)
      .map(([name, times]) => `${name} ${times}`)
      .join(', ');
  const row = (name: string, cells: readonly (string | number)[]): string =>
    `${name.padEnd(FIRST_COLUMN)}${cells.map((cell) => String(cell).padStart(COLUMN)).join('')}`;
  const table = [
    row('', [...ACTIONS, 'in all']),
    ...POINTS.map((point) => {
      const times = ACTIONS.map((action) => struck[`${point}: ${action}`] ?? 0);
      return row(point, [...times, times.reduce((sum, count) => sum + count, 0)]);
    }),
  ];
  const verdicts = Object.entries(INVARIANTS).map(([name, meaning]) => {
    const times = broken.filter(({ invariant }) => invariant === name).length;
    return `${times === 0 ? 'held  ' : 'BROKEN'}  ${name}: ${meaning}${times > 0 ? ` (${times} times)` : ''}`;
  });
  const details = broken.map(
    ({ round, invariant, subject, detail }) => `  round ${round}: ${invariant}: ${subject}: ${detail}`,
  );
  return [
    `Seed ${seed}: ${rounds} rounds, ${requests} requests with a key each, ${seconds} s.`,
    '',
    'Faults that struck:',
    ...table,
    `Points reached: ${counts(reached)}.`,
    `Answers: ${counts(answers)}.`,
    '',
    ...verdicts,
    ...details,
  ].join('\n');
}
