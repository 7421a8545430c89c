import type { RestlessProcesses } from './storm-processes.js';

/** When processes are ended during a storm: every so many milliseconds, about, or so often, evenly among the requests. */
export type Restarts = { pauseMs: number } | { times: number };

/**
 * Lets processes be ended while `total` items are worked off. The returned function is told of each item that is done.
 * What it waits for holds up one client, while the others go on: so that no restart comes when all is over.
 */
export function restartAmong(
  processes: RestlessProcesses,
  restarts: Restarts,
  total: number,
): (done: number) => Promise<void> {
  if ('pauseMs' in restarts) {
    processes.beRestless(restarts.pauseMs);
    return () => Promise.resolve();
  }
  const every = Math.max(1, Math.floor(total / (restarts.times + 1)));
  let left = restarts.times;
  return async (done) => {
    if (left === 0 || done % every !== 0) return;
    left -= 1;
    await processes.restart();
  };
}
