import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { FAULT_CODES, type FaultCode, type Verdict } from '../verify/fault.js';

export class FaultDto {
  @ApiProperty({ enum: FAULT_CODES })
  code!: FaultCode;
  @ApiProperty({ example: 'the event is not the one that was hashed' })
  detail!: string;
  @ApiPropertyOptional({ type: 'integer', description: 'Log index.' })
  index?: number;
  @ApiPropertyOptional({ example: 'order/01935c1e-7b3a-7c1d-9f00-000000000001' })
  stream?: string;
  @ApiPropertyOptional({ type: 'integer' })
  version?: number;
}

export class LogBreakDto {
  @ApiProperty({ type: 'integer', description: 'Log index of the event that tells of it.' })
  index!: number;
  @ApiProperty({ example: 'waybill.localhost/1/2', description: 'What the log is called from there on.' })
  origin!: string;
  @ApiProperty({ type: 'integer', description: 'Leaves that the checkpoint left behind had covered.' })
  abandonedSize!: number;
  @ApiProperty({ description: 'That checkpoint.' })
  abandonedNote!: string;
}

export class LateSealingDto {
  @ApiProperty({ type: 'integer' })
  count!: number;
  @ApiProperty({ type: 'integer', description: 'Log index of the first one.' })
  firstIndex!: number;
  @ApiProperty({ type: 'integer', description: 'Longest time from an event to its sealing, in seconds.' })
  greatestSeconds!: number;
}

/** What a verification found. */
export class VerificationDto {
  @ApiProperty({ format: 'uuid' })
  id!: string;
  @ApiProperty({ format: 'date-time', example: '2026-11-30T08:15:30.123456Z' })
  startedAt!: string;
  @ApiProperty({ format: 'date-time', example: '2026-11-30T08:15:31.123456Z' })
  finishedAt!: string;
  @ApiProperty({ enum: ['intact', 'tampered', 'unverifiable'] })
  verdict!: Verdict;
  @ApiProperty({ type: FaultDto, nullable: true, description: 'The first fault.' })
  fault!: FaultDto | null;
  @ApiProperty({ example: 'waybill.localhost/1' })
  origin!: string;
  @ApiProperty({
    type: 'integer',
    description: 'Events before this log index were verified earlier and not read again.',
  })
  fromIndex!: number;
  @ApiProperty({ type: 'integer', description: 'Events in the log.' })
  size!: number;
  @ApiProperty({ pattern: '^[0-9a-f]{64}$' })
  root!: string;
  @ApiProperty({ type: 'integer' })
  streams!: number;
  @ApiProperty({ type: 'integer', description: 'Events that wait to be sealed.' })
  unsealed!: number;
  @ApiProperty()
  signaturesChecked!: boolean;
  @ApiProperty({ type: [LogBreakDto], description: 'Restores that the log itself tells of.' })
  breaks!: LogBreakDto[];
  @ApiProperty({
    type: LateSealingDto,
    nullable: true,
    description: 'Events that were sealed more than a day after they occurred; null without any.',
  })
  late!: LateSealingDto | null;
}

/** A verification that has begun. */
export class RunningVerificationDto {
  @ApiProperty({ format: 'uuid' })
  id!: string;
  @ApiProperty({ format: 'date-time' })
  startedAt!: string;
}
