import { setTimeout as sleep } from 'node:timers/promises';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { Draining } from './health/index.js';

export interface DrainSettings {
  delaySeconds: number;
  graceSeconds: number;
}

/**
 * Ends an application without losing what it accepted: readiness turns false, then no new connection is taken, open
 * requests are answered, background work is handed over, and the pool of connections closes. A COMMIT that is under way
 * when the grace period ends is decided by the database alone; the client's retry finds out.
 *
 * @returns whether all of that was done in time; connections that were still open are closed hard otherwise
 */
export async function drain(
  app: NestFastifyApplication,
  { delaySeconds, graceSeconds }: DrainSettings,
  log: (line: string) => void,
): Promise<boolean> {
  app.get(Draining).begin();
  if (delaySeconds > 0) await sleep(delaySeconds * 1000);
  const patience = new AbortController();
  const closed = app.close().then(() => true);
  try {
    const isComplete = await Promise.race([
      closed,
      sleep(graceSeconds * 1000, false, { signal: patience.signal }).catch(() => false),
    ]);
    if (isComplete) return true;
  } finally {
    patience.abort();
  }
  log(`Requests were still open after ${graceSeconds} s; their connections are closed now.`);
  app.getHttpServer().closeAllConnections();
  return false;
}
