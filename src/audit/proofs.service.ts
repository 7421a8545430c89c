import { Injectable } from '@nestjs/common';
import type { TenantTransaction } from '../database/index.js';
import { NoProof, NothingSealed, NotSealed } from './audit.errors.js';
import type {
  ConsistencyProofDto,
  ConsistencyQuery,
  EventQuery,
  InclusionProofDto,
  InclusionQuery,
} from './dto/log.dto.js';
import { LogReader } from './log-reader.js';

/** Proofs for whoever keeps a receipt or a checkpoint. */
@Injectable()
export class ProofsService {
  constructor(private readonly log: LogReader) {}

  async inclusion(tx: TenantTransaction, query: InclusionQuery): Promise<InclusionProofDto> {
    const latest = await this.latestSize(tx);
    const size = query.size ?? latest;
    if (size > latest) throw new NoProof('size', `The log has ${latest} events, fewer than ${size}.`);
    const index = await this.indexOf(tx, query);
    if (index >= size) throw new NoProof('index', `Event ${index} is not among the first ${size}.`);
    const hash = await this.log.leafHash(tx, index);
    if (!hash) throw new NotSealed();
    const tree = this.log.tree(tx);
    return {
      index,
      size,
      leafHash: hash.toString('hex'),
      root: (await tree.root(size)).toString('hex'),
      proof: inHex(await tree.inclusionProof(index, size)),
    };
  }

  async consistency(tx: TenantTransaction, query: ConsistencyQuery): Promise<ConsistencyProofDto> {
    const latest = await this.latestSize(tx);
    const { from, to = latest } = query;
    if (to > latest) throw new NoProof('to', `The log has ${latest} events, fewer than ${to}.`);
    if (from > to) throw new NoProof('from', `${from} is more than ${to}: the smaller size comes first.`);
    const tree = this.log.tree(tx);
    return {
      from,
      to,
      fromRoot: (await tree.root(from)).toString('hex'),
      toRoot: (await tree.root(to)).toString('hex'),
      proof: inHex(await tree.consistencyProof(from, to)),
    };
  }

  /** @throws NoProof, NotSealed */
  async indexOf(tx: TenantTransaction, { index, stream, version }: EventQuery): Promise<number> {
    const isNamed = stream !== undefined && version !== undefined;
    if (index !== undefined && stream === undefined && version === undefined) return index;
    if (index !== undefined || !isNamed) throw new NoProof('index', 'Give either index, or stream and version.');
    const found = await this.log.leafOf(tx, stream, version);
    if (found === null) throw new NotSealed();
    return found;
  }

  private async latestSize(tx: TenantTransaction): Promise<number> {
    const latest = await this.log.latestCheckpoint(tx);
    if (!latest) throw new NothingSealed();
    return latest.size;
  }
}

function inHex(hashes: readonly Buffer[]): string[] {
  return hashes.map((hash) => hash.toString('hex'));
}
