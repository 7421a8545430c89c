import { INVARIANTS } from './fault-checker.js';
import { ACTIONS, POINTS } from './fault-plan.js';
import type { RoundsReport } from './run-rounds.js';

/** A report for people: what struck where, what came back, what broke, and how to see it again. */
export function summaryOf({ seed, rounds, requests, seconds, reached, struck, answers, broken }: RoundsReport): string {
  const counts = (of: Record<string, number>): string =>
    Object.entries(of)
      .toSorted(([, a], [, b]) => b - a)
      .map(([name, times]) => `${name} ${times}`)
      .join(', ');
  const width = Math.max(...ACTIONS.map(({ length }) => length));
  const table = [
    `${''.padEnd(width)}  ${POINTS.map((point) => point.padStart(14)).join('')}`,
    ...ACTIONS.map((action) => {
      const cells = POINTS.map((point) => String(struck[`${point}: ${action}`] ?? 0).padStart(14));
      return `${action.padEnd(width)}  ${cells.join('')}`;
    }),
  ];
  const verdicts = Object.entries(INVARIANTS).map(([name, meaning]) => {
    const times = broken.filter(({ invariant }) => invariant === name).length;
    return `${times === 0 ? 'held  ' : 'BROKEN'}  ${name}: ${meaning}${times > 0 ? ` (${times} times)` : ''}`;
  });
  const details = broken.map(
    ({ round, invariant, subject, detail }) => `  round ${round}: ${invariant}: ${subject}: ${detail}`,
  );
  const again =
    broken.length > 0 ? [`Again: npm run faults -- --seed ${seed} --from ${broken[0]?.round} --rounds 1`] : [];
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
    ...again,
  ].join('\n');
}
