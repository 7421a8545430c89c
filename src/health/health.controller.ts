import { Controller, Get } from '@nestjs/common';
import {
  ApiExtraModels,
  ApiOkResponse,
  ApiOperation,
  ApiProperty,
  ApiPropertyOptional,
  ApiTags,
  getSchemaPath,
} from '@nestjs/swagger';
import { HealthCheckService, HealthIndicatorService } from '@nestjs/terminus';
import { ApiProblems, DomainError, unavailable } from '../problems/index.js';
import { Public, Uncounted } from '../http/index.js';
import { DatabaseProbe } from '../database/index.js';
import { Draining } from './draining.js';

class HealthPartDto {
  @ApiProperty({ example: 'up' })
  status!: string;
  @ApiPropertyOptional({ description: 'Milliseconds.', example: 2 })
  responseTime?: number;
}

class HealthDto {
  @ApiProperty({ example: 'ok' })
  status!: string;
  @ApiPropertyOptional({
    type: 'object',
    additionalProperties: { $ref: getSchemaPath(HealthPartDto) },
    description: 'The state of each thing that was looked at.',
    example: { database: { status: 'up', responseTime: 2 } },
  })
  details?: Record<string, HealthPartDto>;
}

@ApiTags('health')
@ApiExtraModels(HealthPartDto)
@Public()
@Controller('health')
export class HealthController {
  constructor(
    private readonly health: HealthCheckService,
    private readonly indicators: HealthIndicatorService,
    private readonly database: DatabaseProbe,
    private readonly draining: Draining,
  ) {}

  @Get('live')
  @Uncounted()
  @ApiOperation({ operationId: 'getLiveness', summary: 'The process answers; restart it when it does not' })
  @ApiOkResponse({ type: HealthDto })
  @ApiProblems()
  live(): HealthDto {
    // Nothing else is looked at: a restart of this process brings no database back.
    return { status: 'ok' };
  }

  @Get('ready')
  @Uncounted()
  @ApiOperation({
    operationId: 'getReadiness',
    summary: 'Requests can be served: the process is not about to end, and the database answers',
  })
  @ApiOkResponse({ type: HealthDto })
  @ApiProblems()
  async ready(): Promise<HealthDto> {
    if (this.draining.isDraining) throw new DomainError(unavailable, 'This process is about to end.');
    let reason: unknown;
    const database = this.indicators.check('database').attempt(() =>
      this.database.ping().catch((error: unknown) => {
        reason = error;
        throw error;
      }),
    );
    try {
      const { status, details } = await this.health.check([() => database]);
      return { status, details };
    } catch (cause) {
      // What terminus throws says only that something is down.
      throw new DomainError(unavailable, 'The database does not answer, or takes no writes.', undefined, {
        cause: reason ?? cause,
      });
    }
  }
}
