import { Stopped, type ApiClient } from './api-client.js';
import { LineFailed, playOrder, readOrder } from './play-order.js';
import type { RecordedOrder } from './recorded-order.js';

/** What a run did so far. */
export interface RunCounts {
  /** Lines that are through, failed ones included. */
  finished: number;
  placed: number;
  alreadyThere: number;
  moved: number;
  alreadyMoved: number;
}

/** A line that the service refused. */
export interface FailedLine {
  place: string;
  reason: string;
}

export interface RunResult {
  counts: RunCounts;
  /** Each order once, in the order of the lines. */
  orderIds: string[];
  /** In the order of the lines. */
  failures: FailedLine[];
  stopped: boolean;
}

/** What all orders of a run add up to, as the service tells it at the end. */
export interface Totals {
  orders: number;
  lines: number;
  /** Minor units by currency. */
  amounts: Map<string, bigint>;
  states: Map<string, number>;
}

export interface RunOptions {
  concurrency: number;
  /** Aborted: no new request is begun, running ones are waited for. */
  stop: AbortSignal;
  onProgress: (counts: Readonly<RunCounts>) => void;
}

/**
 * Plays all recorded orders, several at a time. A refused line doesn't stop the others; a service that can't be reached
 * or refuses the key does.
 */
export async function playAll(
  api: ApiClient,
  recorded: readonly RecordedOrder[],
  options: RunOptions,
): Promise<RunResult> {
  const counts: RunCounts = { finished: 0, placed: 0, alreadyThere: 0, moved: 0, alreadyMoved: 0 };
  const ids = new Map<number, string>();
  const failures = new Map<number, FailedLine>();

  await forEachConcurrently(recorded, options, async (one, at) => {
    try {
      const played = await playOrder(api, one, () => options.stop.aborted);
      ids.set(at, played.orderId);
      counts[played.placed ? 'placed' : 'alreadyThere'] += 1;
      counts.moved += played.moved;
      counts.alreadyMoved += played.alreadyMoved;
      if (!played.stopped) counts.finished += 1;
    } catch (error) {
      if (error instanceof Stopped) return;
      if (!(error instanceof LineFailed)) throw error;
      failures.set(at, { place: one.place, reason: error.message });
      counts.finished += 1;
    }
    options.onProgress(counts);
  });

  return {
    counts,
    orderIds: [...new Set(inOrder(ids))],
    failures: inOrder(failures),
    stopped: counts.finished < recorded.length,
  };
}

/** Reads every order back and adds up: what the service holds, not what the run believes it did. */
export async function readTotals(
  api: ApiClient,
  orderIds: readonly string[],
  options: Pick<RunOptions, 'concurrency' | 'stop'>,
): Promise<Totals> {
  const totals: Totals = { orders: 0, lines: 0, amounts: new Map(), states: new Map() };
  await forEachConcurrently(orderIds, options, async (id) => {
    const { lines, currency, total, status } = await readOrder(api, id);
    totals.orders += 1;
    totals.lines += Array.isArray(lines) ? lines.length : 0;
    const unit = String(currency);
    totals.amounts.set(unit, (totals.amounts.get(unit) ?? 0n) + minorUnits(id, total));
    totals.states.set(String(status), (totals.states.get(String(status)) ?? 0) + 1);
  });
  return totals;
}

function minorUnits(orderId: string, total: unknown): bigint {
  if (Number.isSafeInteger(total)) return BigInt(total as number);
  throw new LineFailed(`order ${orderId} has the total ${JSON.stringify(total)}, which is no amount in minor units.`);
}

/** Runs `work` on all items, `concurrency` at a time; begins nothing new once stopped or once one of them has thrown. */
async function forEachConcurrently<T>(
  items: readonly T[],
  { concurrency, stop }: Pick<RunOptions, 'concurrency' | 'stop'>,
  work: (item: T, at: number) => Promise<void>,
): Promise<void> {
  const queue = items.entries();
  let failed = false;
  const worker = async (): Promise<void> => {
    for (const [at, item] of queue) {
      if (stop.aborted || failed) return;
      try {
        await work(item, at);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  const outcomes = await Promise.allSettled(Array.from({ length: concurrency }, worker));
  const rejected = outcomes.find((outcome) => outcome.status === 'rejected');
  if (rejected) throw rejected.reason;
}

function inOrder<T>(byLine: ReadonlyMap<number, T>): T[] {
  return [...byLine].toSorted(([one], [other]) => one - other).map(([, value]) => value);
}
