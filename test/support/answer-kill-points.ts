import type { ChildProcess } from 'node:child_process';
import type { KillPoint } from '../../src/database/index.js';

/** Lets a service that was started with WAYBILL_KILL_POINTS=parent wait at each kill point until the promise is settled. */
export function answerKillPoints(child: ChildProcess, onKillPoint: (point: KillPoint) => Promise<void> | void): void {
  child.on('message', (message: { killPoint: KillPoint; id: number }) => {
    void Promise.resolve(onKillPoint(message.killPoint)).finally(() => {
      // It may be gone by now; then nobody waits.
      if (child.connected) child.send({ goOn: message.id }, () => undefined);
    });
  });
}
