import { ApiClient, KeyRefused, ServiceUnreachable, Stopped } from './api-client.js';
import { CredentialsMissing, findCredentials } from './credentials.js';
import { generateOrders } from './generate-orders.js';
import { playAll, readTotals, type RunCounts, type RunResult } from './play-all.js';
import { LineFailed } from './play-order.js';
import { Progress, type ProgressOutput } from '../src/cli/progress.js';
import { readRecordedOrders, RecordingError, type RecordedOrder } from './recorded-order.js';
import { describeCounts, describeFailures, describeRun, grouped } from './summary.js';

/** The command line, parsed. */
export interface DemoOptions {
  from?: string | undefined;
  orders?: number | undefined;
  seed: number;
  concurrency: number;
  baseUrl?: string | undefined;
  apiKey?: string | undefined;
  dataDir: string;
}

/** Where the run writes, and the two ways to end it early. */
export interface DemoSurroundings {
  stdout: ProgressOutput;
  stderr: ProgressOutput;
  /** The first ctrl-C: nothing new is begun. */
  stop: AbortSignal;
  /** The second one: what is under way is dropped. */
  abort: AbortSignal;
  backOffMs?: number;
}

const EXIT_OK = 0;
const EXIT_FAILED = 1;
const EXIT_INTERRUPTED = 130;

/** Plays recorded or invented orders through the service. @returns the exit code */
export async function runDemo(options: DemoOptions, around: DemoSurroundings): Promise<number> {
  const { stderr } = around;
  const latest: { counts?: RunCounts } = {};
  try {
    const { recorded, source } = await ordersToPlay(options);
    const credentials = await findCredentials(options);
    await checkService(credentials, around);
    return await play(recorded, source, credentials, options, around, latest);
  } catch (error) {
    if (around.abort.aborted || error instanceof Stopped) {
      stderr.write(`Stopped. ${howToGoOn(latest.counts)}\n`);
      return EXIT_INTERRUPTED;
    }
    if (error instanceof ServiceUnreachable || error instanceof KeyRefused || error instanceof LineFailed) {
      stderr.write(`${error.message}\n${latest.counts ? `${howToGoOn(latest.counts)}\n` : ''}`);
      return EXIT_FAILED;
    }
    if (error instanceof RecordingError || error instanceof CredentialsMissing) {
      stderr.write(`${error.message}\n`);
      return EXIT_FAILED;
    }
    throw error;
  }
}

async function ordersToPlay(options: DemoOptions): Promise<{ recorded: RecordedOrder[]; source: string }> {
  if (options.from !== undefined) {
    const recorded = await readRecordedOrders(options.from);
    return { recorded, source: `the ${grouped(recorded.length)} orders of ${options.from}` };
  }
  const count = options.orders ?? 0;
  return { recorded: generateOrders(count, options.seed), source: `${grouped(count)} invented orders` };
}

/** One cheap request tells a missing service or a wrong key before hundreds of lines would. */
async function checkService(
  credentials: { baseUrl: string; apiKey: string },
  { abort, stop, backOffMs }: DemoSurroundings,
): Promise<void> {
  const api = new ApiClient({ ...credentials, signal: abort, stop, maxTries: 4, backOffMs });
  try {
    await api.get('/v1/orders?limit=1');
  } catch (error) {
    if (!(error instanceof ServiceUnreachable)) throw error;
    throw new ServiceUnreachable(`${error.message}\nIs the service running? "npm start" starts it.`);
  }
}

async function play(
  recorded: RecordedOrder[],
  source: string,
  credentials: { baseUrl: string; apiKey: string },
  { concurrency }: DemoOptions,
  { stdout, stderr, stop, abort, backOffMs }: DemoSurroundings,
  latest: { counts?: RunCounts },
): Promise<number> {
  const startedAt = performance.now();
  stderr.write(`Playing ${source} on ${credentials.baseUrl}\n`);
  const progress = new Progress('orders', recorded.length, stderr);
  const api = new ApiClient({
    ...credentials,
    signal: abort,
    stop,
    backOffMs,
    onRetry: (why, waitMs) => {
      if (waitMs >= 1000) progress.note(`Waiting ${(waitMs / 1000).toFixed(1)} s: ${why}`);
    },
  });
  const onProgress = (counts: Readonly<RunCounts>): void => {
    latest.counts = { ...counts };
    progress.update(counts.finished, describeCounts(counts));
  };
  let result: RunResult;
  try {
    result = await playAll(api, recorded, { concurrency, stop, onProgress });
  } finally {
    progress.finish();
  }
  const { counts, failures, orderIds } = result;
  if (result.stopped) {
    if (failures.length > 0) stderr.write(`${describeFailures(failures)}\n`);
    stderr.write(`Stopped after ${grouped(counts.finished)} of ${grouped(recorded.length)}. ${howToGoOn(counts)}\n`);
    return EXIT_INTERRUPTED;
  }
  const seconds = (performance.now() - startedAt) / 1000;
  const totals = await readTotals(api, orderIds, { concurrency, stop: abort });
  stdout.write(`\n${describeRun(source, seconds, counts, totals)}\n`);
  if (failures.length === 0) return EXIT_OK;
  stderr.write(`\n${describeFailures(failures)}\n`);
  return EXIT_FAILED;
}

function howToGoOn(counts: RunCounts | undefined): string {
  const soFar = counts ? `${describeCounts(counts)}.\n` : '';
  return `${soFar}Run the same command again to go on; nothing happens twice.`;
}
