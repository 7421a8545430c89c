import { DomainError, unavailable } from '../problems/index.js';

/** A body in memory, or on its way there. */
export interface HeldBody {
  /** Counts further bytes of it. */
  grow(bytes: number): void;
  /** All of it is here: from now on it is refused no more. */
  settle(): void;
  /** It is answered, or its sender is gone. */
  release(): void;
}

interface Entry {
  bytes: number;
  refuse: ((error: Error) => void) | null;
}

/**
 * Counts what bodies take in memory, from their first byte until the request is answered. When it is too much, the body that
 * has been arriving longest is refused: an honest one is here in no time, and whoever wants to fill the memory with bodies
 * that never end keeps nobody else out.
 */
export class BodyMemory {
  /** In the order in which they began. */
  private readonly entries = new Set<Entry>();
  private bytes = 0;

  /** @param most bytes */
  constructor(private readonly most: number) {}

  /** Bytes that bodies take now. */
  get used(): number {
    return this.bytes;
  }

  /** @param refuse called at most once, before the body is settled */
  hold(refuse: (error: Error) => void): HeldBody {
    const entry: Entry = { bytes: 0, refuse };
    this.entries.add(entry);
    return {
      grow: (bytes) => {
        if (!this.entries.has(entry)) return;
        entry.bytes += bytes;
        this.bytes += bytes;
        while (this.bytes > this.most && this.refuseOldest());
      },
      settle: () => (entry.refuse = null),
      release: () => this.release(entry),
    };
  }

  /** @returns whether there was one that could be refused */
  private refuseOldest(): boolean {
    for (const entry of this.entries) {
      const { refuse } = entry;
      if (!refuse) continue;
      this.release(entry);
      refuse(new DomainError(unavailable, 'More bodies arrive at once than this process has room for.'));
      return true;
    }
    return false;
  }

  private release(entry: Entry): void {
    if (this.entries.delete(entry)) this.bytes -= entry.bytes;
  }
}
