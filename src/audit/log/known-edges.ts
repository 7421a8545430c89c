import type { CompactTree } from '../format/merkle.js';
import type { StoredCheckpoint } from './log-store.js';

/**
 * Right edges of the trees that this process has written, so that not every batch reads its log's anew. One is used only
 * where the database's last checkpoint says the same; after a restore, or when another process went on, it is not.
 */
export class KnownEdges {
  private readonly trees = new Map<number, CompactTree>();

  find(tenantId: number, last: StoredCheckpoint | null): CompactTree | undefined {
    const tree = this.trees.get(tenantId);
    return tree && last && tree.size === last.size && tree.root().equals(last.root) ? tree.copy() : undefined;
  }

  remember(tenantId: number, tree: CompactTree): void {
    this.trees.set(tenantId, tree.copy());
  }
}
