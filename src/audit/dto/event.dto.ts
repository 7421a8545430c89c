import { ApiProperty } from '@nestjs/swagger';
import type { StreamEvent } from '../event-reader.js';
import type { SealedEvent } from '../log-reader.js';

/** One event of an entity's stream, with what is needed to check its hash. */
export class EventDto {
  @ApiProperty({ example: 'order/01935c1e-7b3a-7c1d-9f00-000000000001', description: 'The entity: kind and id.' })
  stream!: string;
  @ApiProperty({
    type: 'integer',
    example: 1,
    description: "The event's place in its stream, from 1; the entity's version.",
  })
  version!: number;
  @ApiProperty({ format: 'uuid' })
  eventId!: string;
  @ApiProperty({ example: 'order.created' })
  type!: string;
  @ApiProperty({ format: 'uuid', description: 'The user who acted.' })
  actor!: string;
  @ApiProperty({ format: 'date-time', example: '2026-11-30T08:15:30.123456Z' })
  occurredAt!: string;
  @ApiProperty({ description: 'JSON text, byte for byte as it was hashed: snapshot, changes, reason, request id.' })
  body!: string;
  @ApiProperty({ pattern: '^[0-9a-f]{64}$', description: 'Hash of the event before in this stream.' })
  prevHash!: string;
  @ApiProperty({ pattern: '^[0-9a-f]{64}$', description: 'SHA-256 over all of this event and prevHash.' })
  eventHash!: string;
  @ApiProperty({ type: 'integer', example: 1, description: 'Version of the hash format.' })
  format!: number;

  @ApiProperty({
    type: 'string',
    format: 'date-time',
    nullable: true,
    example: '2026-11-30T08:15:31.123456Z',
    description: 'When it was sealed, by the clock of who signed it; null until sealed.',
  })
  sealedAt!: string | null;
  @ApiProperty({
    type: 'string',
    nullable: true,
    description:
      'Ed25519 in base64, over "waybill-audit/sig/v1\\n", eventHash and the time of sealing; null until the event is sealed.',
  })
  signature!: string | null;
  @ApiProperty({ type: 'integer', nullable: true, example: 41, description: 'Place in the log; null until sealed.' })
  logIndex!: number | null;

  static of(event: StreamEvent): EventDto {
    return Object.assign(new EventDto(), event);
  }

  static ofSealed({ index, occurredUs: _occurredUs, sealedUs: _sealedUs, ...event }: SealedEvent): EventDto {
    return Object.assign(new EventDto(), event, { logIndex: index });
  }
}

export class EventListDto {
  @ApiProperty({ type: [EventDto] })
  data!: EventDto[];
  @ApiProperty({ type: 'string', nullable: true, description: 'Cursor of the next page; null on the last one.' })
  next!: string | null;
}
