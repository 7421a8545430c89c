import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

export interface CommandResult {
  code: number | null;
  stdout: string;
  stderr: string;
}

const MAIN = join(import.meta.dirname, '../../dist/src/cli/main.js');

/** Runs the built `waybill …` in a process of its own, with these settings and no `.env`. */
export async function waybill(commandLine: readonly string[], env: Record<string, string>): Promise<CommandResult> {
  const child = spawn(process.execPath, [MAIN, ...commandLine], {
    cwd: tmpdir(),
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
  return { code: child.exitCode, stdout, stderr };
}
