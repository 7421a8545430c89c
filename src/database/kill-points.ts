/**
 * Named moments of a write at which a fault test stops a process, to kill it or its connection there and see what a
 * retry finds. Nothing happens at them unless a listener is installed: `loadConfig` allows that for tests only.
 */
export type KillPoint = 'claim.before' | 'claim.after' | 'write.after' | 'commit.before' | 'commit.after';

type Listener = (point: KillPoint) => Promise<void>;

let listener: Listener | undefined;

/** Sets who is told, and waited for, at every kill point; undefined makes them inert again. */
export function installKillPoints(next: Listener | undefined): void {
  listener = next;
}

/** Marks a moment of a write. */
export async function reach(point: KillPoint): Promise<void> {
  if (listener) await listener(point);
}
