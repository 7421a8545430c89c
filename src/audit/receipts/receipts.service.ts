import { Injectable } from '@nestjs/common';
import type { TenantTransaction } from '../../database/index.js';
import { NothingSealed, NotSealed } from '../audit.errors.js';
import type { EventQuery } from '../dto/log.dto.js';
import { BrokenTreeError } from '../log/tree-reader.js';
import { LogReader, type SealedEvent } from '../log-reader.js';
import { ProofsService } from '../proofs.service.js';
import { entryBytes, entryLeaf } from './entry.js';
import { tlogProofText } from './tlog-proof.js';

/** Receipts: what anybody needs who wants to prove, without this service, that something happened. */
@Injectable()
export class ReceiptsService {
  constructor(
    private readonly log: LogReader,
    private readonly proofs: ProofsService,
  ) {}

  /**
   * @returns a C2SP tlog-proof, and the event's index in the log
   * @throws NothingSealed, NotSealed, NoProof
   */
  async issue(tx: TenantTransaction, query: EventQuery): Promise<{ index: number; text: string }> {
    const checkpoint = await this.log.latestCheckpoint(tx);
    if (!checkpoint) throw new NothingSealed();
    const index = await this.proofs.indexOf(tx, query);
    const [event] = index < checkpoint.size ? await this.log.page(tx, index - 1, 1) : [];
    if (event?.index !== index) throw new NotSealed();
    const extra = entryOf(tx.context.tenantId, event);
    const stored = await this.log.leafHash(tx, index);
    if (!stored?.equals(entryLeaf(extra)))
      throw new BrokenTreeError(`leaf ${index} is not the event that it was made of`);
    const hashes = await this.log.tree(tx).inclusionProof(index, checkpoint.size);
    return { index, text: tlogProofText({ extra, index, hashes, checkpoint: checkpoint.note }) };
  }
}

function entryOf(tenantId: number, { signature, sealedUs, ...event }: SealedEvent): Buffer {
  return entryBytes({
    event: { ...event, tenantId, prevHash: Buffer.from(event.prevHash, 'hex') },
    sealedUs,
    signature: Buffer.from(signature, 'base64'),
  });
}
