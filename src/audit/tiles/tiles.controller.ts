import { Controller, Get, Header, Param, Query, Req } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiParam, ApiProduces, ApiTags } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { Public } from '../../http/index.js';
import { ApiProblems, notFound } from '../../problems/index.js';
import { NoQuery } from '../../validation/index.js';
import { CHECKPOINT_EXAMPLE } from '../dto/log.dto.js';
import { PublicLogs } from './public-logs.js';

const TENANT = {
  name: 'tenant',
  description: 'Id of the tenant, in digits.',
  schema: { type: 'string' },
  example: '1',
};

/** Public where the tenant says so, and then without credentials: what monitors and witnesses read. */
@ApiTags('audit')
@Public()
@Controller('logs')
export class TilesController {
  constructor(private readonly logs: PublicLogs) {}

  @Get(':tenant/checkpoint')
  @Header('content-type', 'text/plain; charset=utf-8')
  // A monitor should see a new one within seconds.
  @Header('cache-control', 'public, max-age=2')
  @ApiOperation({
    operationId: 'getPublicCheckpoint',
    summary: 'The latest checkpoint of a public log',
    description:
      'A C2SP tlog-checkpoint, with the cosignatures of its witnesses. Without credentials, where the tenant has made its log public; otherwise 404.',
  })
  @ApiParam(TENANT)
  @ApiProduces('text/plain')
  @ApiOkResponse({ schema: { type: 'string', example: CHECKPOINT_EXAMPLE } })
  @ApiProblems(notFound)
  checkpoint(
    @Param('tenant') tenant: string,
    @Query() _query: NoQuery,
    @Req() { id }: FastifyRequest,
  ): Promise<string> {
    return this.logs.checkpoint(tenant, id);
  }

  @Get(':tenant/tile/*')
  @Header('content-type', 'application/octet-stream')
  @Header('cache-control', 'public, max-age=31536000, immutable')
  @ApiOperation({
    operationId: 'getTile',
    summary: 'Hashes of a public log, 32 bytes each, as C2SP tlog-tiles has them',
    description:
      'The path is `<level>/<index>`, with `.p/<width>` behind it for a tile that is not full yet: `0/000.p/12`, `0/x001/067`, `1/000`. It has slashes in it. There are no bundles of entries.',
  })
  @ApiParam(TENANT)
  @ApiParam({
    name: 'path',
    description: 'Level, index and width of the tile.',
    schema: { type: 'string' },
    example: '0/000.p/4',
  })
  @ApiProduces('application/octet-stream')
  @ApiOkResponse({ schema: { type: 'string', format: 'binary' } })
  @ApiProblems(notFound)
  tile(
    @Param('tenant') tenant: string,
    @Query() _query: NoQuery,
    @Req() { id, params }: FastifyRequest<{ Params: { '*': string } }>,
  ): Promise<Buffer> {
    return this.logs.tile(tenant, params['*'], id);
  }
}
