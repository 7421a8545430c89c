import { setTimeout as sleep } from 'node:timers/promises';

const LOOK_MS = 500;

export interface GuardedServer {
  isThere(): Promise<boolean>;
  /** Starts it again; who waits for it elsewhere may have been faster. */
  startAgain(): Promise<void>;
  log(line: string): void;
}

/**
 * Starts a server again that is gone though nobody stopped it: killed by a person or by a system that ran out of memory. What was
 * committed is there, as after any crash.
 *
 * @returns ends the watch, once an attempt that is under way is through
 */
export function guard(server: GuardedServer): () => Promise<void> {
  const ending = new AbortController();
  const watch = watchOver(server, ending.signal);
  return async () => {
    ending.abort();
    await watch;
  };
}

async function watchOver({ isThere, startAgain, log }: GuardedServer, signal: AbortSignal): Promise<void> {
  /** The failure that was told last. */
  let told: string | undefined;
  while (!signal.aborted) {
    // Rejects when the watch is to end; nothing else does, and no process lives on for it.
    await sleep(LOOK_MS, undefined, { signal, ref: false }).catch(() => undefined);
    if (signal.aborted || (await isThere())) continue;
    if (told === undefined) log('PostgreSQL has ended, and nobody stopped it (was it killed?). Starting it again');
    try {
      await startAgain();
      log('PostgreSQL is back, with everything that was committed');
      told = undefined;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (reason !== told) log(`PostgreSQL can't be started again: ${reason}\nTrying again until it can`);
      told = reason;
    }
  }
}
