/**
 * Named moments of a write, and of the sealing after it, at which a fault test stops a process, to kill it or its
 * connection there and see what a retry finds. Nothing happens at them unless a listener is installed: `loadConfig`
 * allows that for tests only.
 */
export type KillPoint =
  | 'claim.before'
  | 'claim.after'
  | 'write.after'
  | 'commit.before'
  | 'commit.after'
  | 'call.before'
  | 'call.after'
  | 'seal.locked'
  | 'seal.started'
  | 'seal.signed'
  | 'seal.appended'
  | 'seal.checkpointed'
  | 'seal.committed'
  | 'seal.cosigning'
  | 'seal.publishing'
  | 'seal.published';

type Listener = (point: KillPoint) => Promise<void>;

let listener: Listener | undefined;

/** Sets who is told, and waited for, at every kill point; undefined makes them inert again. */
export function installKillPoints(next: Listener | undefined): void {
  listener = next;
}

/** Marks such a moment. */
export async function atKillPoint(point: KillPoint): Promise<void> {
  if (listener) await listener(point);
}

/** Tells the parent process of every kill point, and goes on when it says so: `{ killPoint, id }` and `{ goOn: id }`. */
export function reportKillPointsToParent(): void {
  if (!process.send) throw new Error('WAYBILL_KILL_POINTS=parent needs a parent process with a message channel');
  let last = 0;
  installKillPoints(async (killPoint) => {
    last += 1;
    const id = last;
    await new Promise<void>((resolve) => {
      const listen = (message: unknown): void => {
        if (typeof message !== 'object' || message === null || !('goOn' in message) || message.goOn !== id) return;
        process.off('message', listen);
        resolve();
      };
      process.on('message', listen);
      process.send?.({ killPoint, id });
    });
  });
}
