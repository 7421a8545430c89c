import { Body, Controller, Get, Headers, Param, Post, Query, Res } from '@nestjs/common';
import { ApiBearerAuth, ApiCreatedResponse, ApiHeader, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import {
  alreadyInState,
  ApiProblems,
  entityTag,
  guardRefused,
  Idempotent,
  illegalTransition,
  invalidParameter,
  malformedBody,
  NoQuery,
  notFound,
  quantityExceeded,
  READERS,
  reasonRequired,
  Roles,
  staleVersion,
  TenantTransaction,
  Tx,
  UuidParamPipe,
  validationFailed,
  versionOfIfMatch,
  WRITERS,
} from 'waybill/extension';
import { MoveReturnBody, RequestReturnBody, ReturnDto } from './dto/return.dto.js';
import { ReturnsService } from './returns.service.js';

@ApiTags('returns')
@ApiBearerAuth()
@Controller('v1')
export class ReturnsController {
  constructor(private readonly returns: ReturnsService) {}

  @Post('orders/:id/returns')
  @Idempotent({ resource: 'return' })
  @Roles(...WRITERS)
  @ApiOperation({ operationId: 'requestReturn', summary: 'Return units of a line of a delivered order' })
  @ApiCreatedResponse({ type: ReturnDto })
  @ApiProblems(malformedBody, validationFailed, notFound, guardRefused, quantityExceeded)
  async request(
    @Tx() tx: TenantTransaction,
    @Param('id', UuidParamPipe) orderId: string,
    @Query() _query: NoQuery,
    @Body() body: RequestReturnBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<ReturnDto> {
    return answer(reply, await this.returns.request(tx, orderId, body));
  }

  @Get('returns/:id')
  @Roles(...READERS)
  @ApiOperation({ operationId: 'getReturn', summary: 'Read a return' })
  @ApiOkResponse({ type: ReturnDto })
  @ApiProblems(notFound)
  async get(
    @Tx() tx: TenantTransaction,
    @Param('id', UuidParamPipe) id: string,
    @Query() _query: NoQuery,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<ReturnDto> {
    return answer(reply, await this.returns.get(tx, id));
  }

  @Post('returns/:id/transitions')
  @Idempotent({ resource: 'return' })
  @Roles(...READERS)
  @ApiOperation({ operationId: 'moveReturn', summary: 'Move a return to another state' })
  @ApiHeader({ name: 'If-Match', required: false, description: 'The ETag that the decision was made on.' })
  @ApiCreatedResponse({ type: ReturnDto })
  @ApiProblems(
    malformedBody,
    validationFailed,
    invalidParameter,
    notFound,
    reasonRequired,
    illegalTransition,
    alreadyInState,
    guardRefused,
    staleVersion,
  )
  async move(
    @Tx() tx: TenantTransaction,
    @Param('id', UuidParamPipe) id: string,
    @Query() _query: NoQuery,
    @Headers('if-match') ifMatch: string | undefined,
    @Body() { to, reason }: MoveReturnBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<ReturnDto> {
    return answer(reply, await this.returns.move(tx, id, to, reason ?? null, versionOfIfMatch(ifMatch)));
  }
}

function answer(reply: FastifyReply, found: ReturnDto): ReturnDto {
  reply.header('etag', entityTag(found.version));
  return found;
}
