import type { Sample } from '../load/sample.js';

/** A line of the table. */
export interface Row {
  measure: string;
  /** What the figure is a ratio to; empty for an absolute one. */
  against: string;
  /** One for each round. */
  figures: number[];
  unit: string;
  goal: Goal | null;
  /** Named medians that explain the figure, such as requests a second of both sides. */
  details: Record<string, string>;
}

export interface Goal {
  atLeast?: number;
  atMost?: number;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const [low = 0, high = 0] = sorted.length % 2 === 1 ? [sorted[middle], sorted[middle]] : sorted.slice(middle - 1);
  return (low + high) / 2;
}

/** Null when there is no goal. */
export function isMet({ figures, goal }: Row): boolean | null {
  if (!goal) return null;
  const figure = median(figures);
  return figure >= (goal.atLeast ?? -Infinity) && figure <= (goal.atMost ?? Infinity);
}

export function goalText(goal: Goal | null, unit: string): string {
  if (!goal) return '';
  const side = goal.atLeast === undefined ? `≤ ${format(goal.atMost ?? 0)}` : `≥ ${format(goal.atLeast)}`;
  return `${side} ${unit}`.trim();
}

export function format(value: number): string {
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en-US');
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2);
}

/** Throughput, CPU and latency of a side, in words. */
export function describe(samples: readonly Sample[]): string {
  const of = (pick: (sample: Sample) => number): number => median(samples.map(pick));
  const cpu = (['service', 'postgres', 'load'] as const)
    .map((group) => [group, of((sample) => sample.cpu[group])] as const)
    .filter(([, microseconds]) => microseconds > 0)
    .map(([group, microseconds]) => `${group} ${Math.round(microseconds)}`)
    .join(', ');
  const latency = samples.every((sample) => sample.latency)
    ? `; p50 ${of((s) => s.latency?.p50 ?? 0)} ms, p99 ${of((s) => s.latency?.p99 ?? 0)} ms`
    : '';
  return `${format(of((sample) => sample.perSecond))}/s (CPU µs each: ${cpu}${latency})`;
}

/** A ratio for each round. */
export function ratios(a: readonly Sample[], b: readonly Sample[], pick: (sample: Sample) => number): number[] {
  return a.map((sample, round) => pick(sample) / pick(b[round] ?? sample));
}

export const throughput = (sample: Sample): number => sample.perSecond;
/** Without the load generator's. */
export const cpuEach = ({ cpu }: Sample): number => cpu.service + cpu.postgres;
