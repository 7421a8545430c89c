import { join } from 'node:path';
import { ROOT } from '../world/folders.js';
import { type BenchService, startProgram } from '../world/service.js';

/** The comparison of bench/plain as a process. */
export function startPlain(databaseUrl: string): Promise<BenchService> {
  return startProgram([join(ROOT, 'bench/plain/main.mjs')], { DATABASE_URL: databaseUrl });
}
