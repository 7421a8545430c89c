import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BrokenInvariant } from './fault-checker.js';
import type { FaultWorld } from './fault-world.js';

const CLI = join(import.meta.dirname, '../../../dist/src/cli/main.js');
const PATIENCE_MS = 60_000;

/** Waits until everything is sealed, and has the product's own verifier read the whole history, as an auditor would. */
export async function checkLog(world: FaultWorld): Promise<BrokenInvariant[]> {
  const broken = (detail: string): BrokenInvariant[] => [{ invariant: 'log verifies', subject: 'the log', detail }];
  for (const until = Date.now() + PATIENCE_MS; ; await sleep(200)) {
    const [queue] = await world.postgres.query<{ waiting: number }>('SELECT count(*)::int AS waiting FROM audit.queue');
    if (queue?.waiting === 0) break;
    if (Date.now() > until)
      return broken(`${queue?.waiting} events are not sealed after ${PATIENCE_MS / 1000} s of quiet`);
  }
  // An event that nothing will ever seal is overdue after ten intervals.
  await sleep(world.sealIntervalMs * 11);
  const { code, output } = await verify(world.auditEnv);
  return code === 0 ? [] : broken(`waybill audit verify ended with ${code}: ${output.trim().slice(-600)}`);
}

function verify(env: Record<string, string>): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [CLI, 'audit', 'verify'],
      { env: { PATH: process.env.PATH, ...env } },
      (error, out, err) => {
        resolve({ code: typeof error?.code === 'number' ? error.code : error ? 1 : 0, output: out + err });
      },
    );
  });
}
