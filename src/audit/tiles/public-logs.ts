import { Injectable } from '@nestjs/common';
import { type NamedStatement, type TenantTransaction, TransactionRunner } from '../../database/index.js';
import { LogHasEnded, LogNotPublic, NothingSealed } from '../audit.errors.js';
import { LEAF_HASHES, NODE_HASHES } from '../log/log-store.js';
import { BrokenTreeError, STORED_LEVELS } from '../log/tree-reader.js';
import { LogReader } from '../log-reader.js';
import { leavesUpTo, parseTilePath, type Tile } from './tile-path.js';

const IS_PUBLIC: NamedStatement = {
  name: 'audit_log_is_public',
  text: 'SELECT is_public AS "isPublic" FROM waybill.log_policies WHERE tenant_id = $1',
};

/** As it stands in an address. */
export interface LogAddress {
  tenant: string;
  generation: string;
}

/** Checkpoints and hashes of the logs that their tenants let anybody read. */
@Injectable()
export class PublicLogs {
  constructor(
    private readonly transactions: TransactionRunner,
    private readonly log: LogReader,
  ) {}

  /**
   * The signed note that was published last.
   *
   * @throws LogNotPublic, LogHasEnded, NothingSealed
   */
  checkpoint(log: LogAddress, requestId: string): Promise<string> {
    return this.read(log, requestId, async (tx) => (await this.latest(tx)).note);
  }

  /**
   * Hashes of a tile, 32 bytes each, as far as the published checkpoint covers all of them.
   *
   * @param path below `tile/`
   * @throws LogNotPublic, LogHasEnded, NothingSealed
   */
  tile(log: LogAddress, path: string, requestId: string): Promise<Buffer> {
    const tile = parseTilePath(path);
    if (!tile) throw new LogNotPublic();
    return this.read(log, requestId, async (tx) => {
      const { size } = await this.latest(tx);
      if (leavesUpTo(tile) > size) throw new LogNotPublic();
      return hashesOf(tx, tile);
    });
  }

  private read<T>(
    { tenant, generation }: LogAddress,
    requestId: string,
    work: (tx: TenantTransaction) => Promise<T>,
  ): Promise<T> {
    if (!/^[1-9]\d{0,14}$/.test(tenant) || !/^[1-9]\d{0,5}$/.test(generation)) throw new LogNotPublic();
    const tenantId = Number(tenant);
    // Nobody is known, and nothing is written: the database shows one tenant's log and no more.
    return this.transactions.run({ tenantId, userId: null, roles: [], requestId }, 'read', async (tx) => {
      const [[policy], place] = await Promise.all([
        tx.rows<{ isPublic: boolean }>(IS_PUBLIC, [tenantId]),
        this.log.place(tx),
      ]);
      if (!policy?.isPublic) throw new LogNotPublic();
      if (!place) throw new NothingSealed();
      // What was behind an address never changes: a restored log has another one.
      if (Number(generation) < place.generation) throw new LogHasEnded(tenantId, place.generation);
      if (Number(generation) > place.generation) throw new LogNotPublic();
      return work(tx);
    });
  }

  private async latest(tx: TenantTransaction): Promise<{ size: number; note: string }> {
    const checkpoint = await this.log.latestCheckpoint(tx);
    if (!checkpoint) throw new NothingSealed();
    return checkpoint;
  }
}

/** The levels of tiles are those that are stored. */
async function hashesOf(tx: TenantTransaction, { level, index, width }: Tile): Promise<Buffer> {
  const { tenantId } = tx.context;
  const begin = index * 2 ** STORED_LEVELS;
  const rows =
    level === 0
      ? await tx.rows<{ hash: Buffer }>(LEAF_HASHES, [tenantId, begin, begin + width])
      : await tx.rows<{ hash: Buffer }>(NODE_HASHES, [tenantId, level * STORED_LEVELS, begin, begin + width]);
  if (rows.length !== width) throw new BrokenTreeError(`hashes of the tile ${index} of level ${level} are missing`);
  return Buffer.concat(rows.map(({ hash }) => hash));
}
