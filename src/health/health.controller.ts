import { Controller, Get } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiProperty, ApiTags } from '@nestjs/swagger';
import { DataSource } from 'typeorm';
import { ApiProblems, DomainError, Public } from '../common/index.js';

class HealthDto {
  @ApiProperty({ example: 'ok' })
  status!: string;
}

@ApiTags('health')
@Public()
@Controller('health')
export class HealthController {
  constructor(private readonly dataSource: DataSource) {}

  @Get('live')
  @ApiOperation({ operationId: 'getLiveness', summary: 'The process answers' })
  @ApiOkResponse({ type: HealthDto })
  live(): HealthDto {
    return { status: 'ok' };
  }

  @Get('ready')
  @ApiOperation({ operationId: 'getReadiness', summary: 'Requests can be served: the database answers' })
  @ApiOkResponse({ type: HealthDto })
  @ApiProblems()
  async ready(): Promise<HealthDto> {
    try {
      await this.dataSource.query('SELECT 1');
    } catch (cause) {
      throw new DomainError('unavailable', 'The database does not answer.', undefined, { cause });
    }
    return { status: 'ok' };
  }
}
