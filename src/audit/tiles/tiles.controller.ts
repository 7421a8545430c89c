import { applyDecorators, Controller, Get, Header, Param, Query, Req } from '@nestjs/common';
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

const GENERATION = {
  name: 'generation',
  description: 'From 2: one more after each restore of the database. Without it the log is the first one.',
  schema: { type: 'string' },
  example: '2',
};
const PATH = {
  name: 'path',
  description: 'Level, index and width of the tile.',
  schema: { type: 'string' },
  example: '0/000.p/4',
};

/** What one route of a checkpoint says of itself. */
const Checkpoint = (operationId: string, summary: string) =>
  applyDecorators(
    Header('content-type', 'text/plain; charset=utf-8'),
    // A monitor should see a new one within seconds.
    Header('cache-control', 'public, max-age=2'),
    ApiOperation({
      operationId,
      summary,
      description:
        'A C2SP tlog-checkpoint, with the cosignatures of its witnesses. Without credentials, where the tenant has made its log public; otherwise 404.',
    }),
    ApiParam(TENANT),
    ApiProduces('text/plain'),
    ApiOkResponse({ schema: { type: 'string', example: CHECKPOINT_EXAMPLE } }),
    ApiProblems(notFound),
  );

const TileOf = (operationId: string, summary: string) =>
  applyDecorators(
    Header('content-type', 'application/octet-stream'),
    Header('cache-control', 'public, max-age=31536000, immutable'),
    ApiOperation({
      operationId,
      summary,
      description:
        'The path is `<level>/<index>`, with `.p/<width>` behind it for a tile that is not full yet: `0/000.p/12`, `0/x001/067`, `1/000`. It has slashes in it. There are no bundles of entries.',
    }),
    ApiParam(TENANT),
    ApiParam(PATH),
    ApiProduces('application/octet-stream'),
    ApiOkResponse({ schema: { type: 'string', format: 'binary' } }),
    ApiProblems(notFound),
  );

type TileRequest = FastifyRequest<{ Params: { '*': string } }>;

/** Public where the tenant says so, and then without credentials: what monitors and witnesses read. */
@ApiTags('audit')
@Public()
@Controller('logs')
export class TilesController {
  constructor(private readonly logs: PublicLogs) {}

  @Get(':tenant/checkpoint')
  @Checkpoint('getPublicCheckpoint', 'The latest checkpoint of a public log')
  checkpoint(
    @Param('tenant') tenant: string,
    @Query() _query: NoQuery,
    @Req() { id }: FastifyRequest,
  ): Promise<string> {
    return this.logs.checkpoint({ tenant, generation: '1' }, id);
  }

  @Get(':tenant/tile/*')
  @TileOf('getTile', 'Hashes of a public log, 32 bytes each, as C2SP tlog-tiles has them')
  tile(@Param('tenant') tenant: string, @Query() _query: NoQuery, @Req() { id, params }: TileRequest): Promise<Buffer> {
    return this.logs.tile({ tenant, generation: '1' }, params['*'], id);
  }

  @Get(':tenant/:generation/checkpoint')
  @Checkpoint('getLaterPublicCheckpoint', 'The same of a log that goes on after a restore')
  @ApiParam(GENERATION)
  laterCheckpoint(
    @Param('tenant') tenant: string,
    @Param('generation') generation: string,
    @Query() _query: NoQuery,
    @Req() { id }: FastifyRequest,
  ): Promise<string> {
    return this.logs.checkpoint({ tenant, generation: laterThanFirst(generation) }, id);
  }

  @Get(':tenant/:generation/tile/*')
  @TileOf('getLaterTile', 'The same of a log that goes on after a restore')
  @ApiParam(GENERATION)
  laterTile(
    @Param('tenant') tenant: string,
    @Param('generation') generation: string,
    @Query() _query: NoQuery,
    @Req() { id, params }: TileRequest,
  ): Promise<Buffer> {
    return this.logs.tile({ tenant, generation: laterThanFirst(generation) }, params['*'], id);
  }
}

/** A log has one address: the first one has no number in it. */
function laterThanFirst(generation: string): string {
  return generation === '1' ? '' : generation;
}
