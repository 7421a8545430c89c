import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { HANG_MS } from './waiting.js';

const ROOT = join(import.meta.dirname, '../..');

/** The service as `npm start` starts it: built, in a process of its own, with its own embedded PostgreSQL and demo keys. */
export interface StartedService {
  baseUrl: string;
  /** Keys of the tenant `demo` by role. */
  keys: Record<string, string>;
  /** Folder of demo.json; tell it to commands as WAYBILL_DATA_DIR. */
  dataDir: string;
  /** Everything that it printed so far. */
  output(): string;
  stop(): Promise<void>;
}

export async function startService(env: Record<string, string> = {}): Promise<StartedService> {
  await promisify(execFile)(process.execPath, [join(ROOT, 'scripts/prepare.mjs'), '--build'], { cwd: ROOT });
  const base = await mkdtemp(join(tmpdir(), 'waybill-started-'));
  // PostgreSQL runs as another user when tests run as root.
  await chmod(base, 0o755);
  const dataDir = join(base, 'data');
  const child = spawn(process.execPath, [join(ROOT, 'dist/src/main.js')], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, PORT: '0', WAYBILL_DATA_DIR: dataDir, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGTERM');
      await once(child, 'exit');
    }
    await rm(base, { recursive: true, force: true });
  };
  try {
    const baseUrl = await addressOf(child, lines);
    const demo = JSON.parse(await readFile(join(dataDir, 'demo.json'), 'utf8')) as DemoFile;
    return { baseUrl, keys: demo.tenants[0]?.keys ?? {}, dataDir, output: () => lines.join('\n'), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

interface DemoFile {
  tenants: { keys: Record<string, string> }[];
}

function addressOf(child: ChildProcess, lines: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const fail = (why: string): void => reject(new Error(`The service ${why}. It said:\n${lines.join('\n')}`));
    const timer = setTimeout(() => fail('did not start in time'), HANG_MS);
    child.once('exit', (code) => fail(`ended with ${code}`));
    for (const stream of [child.stdout, child.stderr]) {
      if (!stream) continue;
      createInterface({ input: stream }).on('line', (line) => {
        lines.push(line);
        const [, address] = /^Waybill serves (\S+)/.exec(line) ?? [];
        if (address === undefined) return;
        clearTimeout(timer);
        // The keys are printed after they were written.
        resolve(address);
      });
    }
  });
}
