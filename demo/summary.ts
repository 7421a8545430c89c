import type { FailedLine, RunCounts, Totals } from './play-all.js';

type Row = [label: string, value: string, note?: string];

/** What the run did, and what the service holds now, as a block of aligned lines. */
export function describeRun(source: string, seconds: number, counts: RunCounts, totals: Totals): string {
  const did: Row[] = [
    ['orders placed', grouped(counts.placed)],
    ['already there', grouped(counts.alreadyThere)],
    ['steps moved', grouped(counts.moved)],
    ['already moved', grouped(counts.alreadyMoved)],
  ];
  const holds: Row[] = [
    ['orders', grouped(totals.orders)],
    ['lines', grouped(totals.lines)],
    ...byName(totals.amounts).map(([currency, sum]): Row => [
      `total ${currency}`,
      grouped(sum),
      inMajor(sum, currency),
    ]),
  ];
  const states = byName(totals.states)
    .toSorted(([, one], [, other]) => other - one)
    .map(([state, count]): Row => [state, grouped(count), percent(count, totals.orders)]);
  const blocks = [
    [`Played ${source} in ${seconds.toFixed(1)} s`, did],
    ['As the service tells it now (totals in minor units)', holds],
    ['By state', states],
  ] as const;
  const all = [...did, ...holds, ...states];
  const labelWidth = Math.max(...all.map(([label]) => label.length));
  const valueWidth = Math.max(...all.map(([, value]) => value.length));
  const line = ([label, value, note]: Row): string =>
    `  ${label.padEnd(labelWidth)}  ${value.padStart(valueWidth)}${note === undefined ? '' : `  ${note}`}`;
  return blocks.map(([title, rows]) => [title, ...rows.map(line)].join('\n')).join('\n\n');
}

/** The counts in one short line, for the progress bar and for a run that ended early. */
export function describeCounts(counts: RunCounts): string {
  return [
    `${grouped(counts.placed)} placed`,
    ...(counts.alreadyThere > 0 ? [`${grouped(counts.alreadyThere)} already there`] : []),
    `${grouped(counts.moved)} moved`,
    ...(counts.alreadyMoved > 0 ? [`${grouped(counts.alreadyMoved)} already moved`] : []),
  ].join(' · ');
}

/** Names the first refused line, and says how many there are. */
export function describeFailures(failures: readonly FailedLine[]): string {
  const [first] = failures;
  if (!first) return '';
  const others = failures.length === 1 ? '' : `\n${grouped(failures.length - 1)} more failed; the first is shown.`;
  return `FAILED ${first.place}: ${first.reason}${others}`;
}

/** A whole number with thousands separators, in the same way on every machine. */
export function grouped(value: number | bigint): string {
  return value.toLocaleString('en-US');
}

/** Minor units as people write the amount; a currency has 0, 2 or 3 digits after the point. */
function inMajor(minor: bigint, currency: string): string {
  const digits = fractionDigits(currency);
  const unit = 10n ** BigInt(digits);
  const fraction = (minor % unit).toString().padStart(digits, '0');
  return `= ${grouped(minor / unit)}${digits === 0 ? '' : `.${fraction}`} ${currency}`;
}

function fractionDigits(currency: string): number {
  if (!/^[A-Z]{3}$/.test(currency)) return 0;
  return new Intl.NumberFormat('en-US', { style: 'currency', currency }).resolvedOptions().maximumFractionDigits ?? 2;
}

function percent(part: number, whole: number): string {
  return `${((100 * part) / Math.max(1, whole)).toFixed(1).padStart(5)} %`;
}

function byName<T>(map: ReadonlyMap<string, T>): [string, T][] {
  return [...map].toSorted(([one], [other]) => (one < other ? -1 : 1));
}
