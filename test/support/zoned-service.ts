import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestDatabase } from './database.js';

export interface ZonedService {
  baseUrl: string;
  /** Of the first of July, in minutes west of UTC: shows that the zone is in force. */
  timezoneOffset: number;
  /** SIGTERM, and waits for the end. */
  stop(): Promise<void>;
}

/** Starts the service in a process of its own on a test's database. */
export async function startZonedService(database: TestDatabase, env: Record<string, string>): Promise<ZonedService> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'service-main.mjs')], {
    env: { PATH: process.env.PATH, LOG_LEVEL: 'error', DATABASE_URL: database.appUrl, DATABASE_POOL_SIZE: '4', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const { baseUrl, timezoneOffset } = await firstLine(child);
  const stop = async (): Promise<void> => {
    if (child.exitCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  };
  return { baseUrl, timezoneOffset, stop };
}

async function firstLine(child: ChildProcess): Promise<{ baseUrl: string; timezoneOffset: number }> {
  if (!child.stdout) throw new Error('no stdout');
  for await (const line of createInterface({ input: child.stdout })) {
    return JSON.parse(line) as { baseUrl: string; timezoneOffset: number };
  }
  throw new Error('the service ended before it listened');
}
