import { ApiProperty, type ApiPropertyOptions } from '@nestjs/swagger';
import { IntegerField, PatternField } from '../../validation/index.js';
import { EventDto } from './event.dto.js';

const MAX_FEED_PAGE = 500;
export const DEFAULT_FEED_PAGE = 100;
/** Longest that a feed request waits, in seconds. */
const MAX_WAIT = 30;
const MAX_INDEX = Number.MAX_SAFE_INTEGER;

export class FeedQuery {
  @IntegerField({
    optional: true,
    min: 0,
    max: MAX_INDEX,
    description:
      'Log index of the last event that you have: `next` of the answer before. Without it from the beginning.',
  })
  after?: number;

  @IntegerField({
    optional: true,
    min: 1,
    max: MAX_FEED_PAGE,
    default: DEFAULT_FEED_PAGE,
    description: 'The most events that the answer has.',
  })
  limit?: number;

  @IntegerField({
    optional: true,
    min: 0,
    max: MAX_WAIT,
    default: 0,
    description: 'Seconds to wait for an event when there is none yet.',
  })
  wait?: number;
}

/** An event that is in the log. */
export class EventQuery {
  @IntegerField({ optional: true, min: 0, max: MAX_INDEX, description: 'Log index; or give stream and version.' })
  index?: number;

  @PatternField(/^[a-z][a-z0-9_-]{0,62}\/[A-Za-z0-9_-]{1,100}$/, 'must be a kind and an id, as in order/…', {
    optional: true,
    example: 'order/01935c1e-7b3a-7c1d-9f00-000000000001',
    description: 'Kind and id.',
  })
  stream?: string;

  @IntegerField({ optional: true, min: 1, max: MAX_INDEX, description: 'Version in the stream.' })
  version?: number;
}

export class InclusionQuery extends EventQuery {
  @IntegerField({
    optional: true,
    min: 1,
    max: MAX_INDEX,
    description: 'Size of a checkpoint; without it the latest one.',
  })
  size?: number;
}

export class ConsistencyQuery {
  @IntegerField({ min: 1, max: MAX_INDEX, description: 'Size of the checkpoint that you kept.' })
  from!: number;

  @IntegerField({
    optional: true,
    min: 1,
    max: MAX_INDEX,
    description: 'Size of a later one; without it the latest.',
  })
  to?: number;
}

export const CHECKPOINT_EXAMPLE = `audit.example.com/waybill/1
2
W2WGUG2NhXMbo/IWK1LwtxHTUxMxg8V/g/FqR7sBoSE=

— audit.example.com/waybill/1 gCPtMbu+cRDEuinvx16CEIIOhAXt+ZmCjM1TprIbbd+4Rj36aU4ZA1MhIrTaO8qqLhEUG8BDgcaa+B3nXPrEfpGLNg4=
`;

export const RECEIPT_EXAMPLE = `c2sp.org/tlog-proof@v1
extra d2F5YmlsbC1hdWRpdC92MQoAAAAAAAAAAREREREiIkMzhERVVVVVVVUAAAAqb3JkZXIvMDE5MzVjMWUtN2IzYS03YzFkLTlmMDAtMDAwMDAwMDAwMDAxAAAAAAAAAAEABmF5y+ciQQAAAA1vcmRlci5jcmVhdGVkAZO2oAAAcACAAAAAAAAABwAAADB7InRhYmxlIjogIm9yZGVycyIsICJzbmFwc2hvdCI6IHsidG90YWwiOiAzNTgyfX0FBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQAGYXnL9IJABwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBw==
index 1
2SmKENGwc1g33EvYXaxkGw887yekfl1TpU8vP1svz/o=

audit.example.com/waybill/1
2
5cDj3b3cbAaAN1LgATItVtPZWGTyBd8lvM3GZqW72Bs=

— audit.example.com/waybill/1 gCPtMdg+jg6mWqU50v4pKN++F8KNaww6VI0+exMKBLdI6uEJcbYW6Q8FXAfcVzl4orAZvRNRv6hvuUffwvYF7xrr2Ac=
`;

const HASHES: ApiPropertyOptions = {
  type: [String],
  example: ['e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
  description: 'Hashes in hex, in the order of RFC 9162.',
};

export class FeedDto {
  @ApiProperty({ type: [EventDto] })
  data!: EventDto[];
  @ApiProperty({
    type: 'integer',
    nullable: true,
    description: '`after` of the next request; null when the log is empty.',
  })
  next!: number | null;
  @ApiProperty({
    type: 'string',
    nullable: true,
    example: 'waybill.localhost/1',
    description:
      'Name of the log; null when it is empty. It changes only when the log was restored to an older state: then take back what you made of the events from originFrom on, and read on from there.',
  })
  origin!: string | null;
  @ApiProperty({
    type: 'integer',
    nullable: true,
    example: 0,
    description: 'Log index from which on the log has this name: 0, or that of the event that tells of the restore.',
  })
  originFrom!: number | null;
}

export class InclusionProofDto {
  @ApiProperty({ type: 'integer', example: 41 })
  index!: number;
  @ApiProperty({ type: 'integer', example: 1000 })
  size!: number;
  @ApiProperty({
    pattern: '^[0-9a-f]{64}$',
    description: 'SHA-256(0x00, preimage of the event, time of sealing, signature).',
  })
  leafHash!: string;
  @ApiProperty({ pattern: '^[0-9a-f]{64}$', description: 'Root of the tree of that size, as its checkpoint has it.' })
  root!: string;
  @ApiProperty(HASHES)
  proof!: string[];
}

export class ConsistencyProofDto {
  @ApiProperty({ type: 'integer', example: 1000 })
  from!: number;
  @ApiProperty({ type: 'integer', example: 2000 })
  to!: number;
  @ApiProperty({ pattern: '^[0-9a-f]{64}$' })
  fromRoot!: string;
  @ApiProperty({ pattern: '^[0-9a-f]{64}$' })
  toRoot!: string;
  @ApiProperty(HASHES)
  proof!: string[];
}
