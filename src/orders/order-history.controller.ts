import { Controller, Get, Param, Query, Req, Res } from '@nestjs/common';
import { ApiBearerAuth, ApiOkResponse, ApiOperation, ApiParam, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { EventDto, EventListDto } from '../audit/index.js';
import { TenantTransaction, Tx } from '../database/index.js';
import { setLinks } from '../http/index.js';
import { READERS, Roles } from '../identity/index.js';
import { ApiProblems, invalidCursor, invalidParameter, notFound } from '../problems/index.js';
import { DEFAULT_PAGE, NoQuery, PageQuery, UuidParamPipe } from '../validation/index.js';
import { OrderVersionDto, OrderVersionListDto, StatusChangeDto, StatusHistoryDto } from './dto/order.dto.js';
import { OrderHistoryService } from './order-history.service.js';
import { readVersionCursor, versionCursor } from './order-links.js';
import { LINK, ORDER_ID } from './orders.api.js';

@ApiTags('orders')
@ApiBearerAuth()
@Controller('v1/orders')
export class OrderHistoryController {
  constructor(private readonly past: OrderHistoryService) {}

  @Get(':id/history')
  @Roles(...READERS)
  @ApiOperation({ operationId: 'listOrderHistory', summary: 'Who moved it from where to where, when and why' })
  @ApiParam(ORDER_ID)
  @ApiOkResponse({ type: StatusHistoryDto })
  @ApiProblems(notFound)
  async history(
    @Tx() tx: TenantTransaction,
    @Param('id', UuidParamPipe) id: string,
    @Query() _query: NoQuery,
  ): Promise<StatusHistoryDto> {
    const history = await this.past.changes(tx, id);
    return { data: history.map((change) => StatusChangeDto.of(change)) };
  }

  @Get(':id/versions')
  @Roles(...READERS)
  @ApiOperation({ operationId: 'listOrderVersions', summary: 'Every version with its changes, oldest first' })
  @ApiParam(ORDER_ID)
  @ApiOkResponse({ type: OrderVersionListDto, headers: LINK })
  @ApiProblems(notFound, invalidParameter, invalidCursor)
  async versions(
    @Tx() tx: TenantTransaction,
    @Param('id', UuidParamPipe) id: string,
    @Query() query: PageQuery,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<OrderVersionListDto> {
    const { events, next } = await this.events(tx, id, query);
    setLinks(reply, request, { next });
    return { data: events.map((event) => OrderVersionDto.of(event)), next };
  }

  @Get(':id/events')
  @Roles(...READERS)
  @ApiOperation({ operationId: 'listOrderEvents', summary: 'The audit events, with their hashes, oldest first' })
  @ApiParam(ORDER_ID)
  @ApiOkResponse({ type: EventListDto, headers: LINK })
  @ApiProblems(notFound, invalidParameter, invalidCursor)
  async eventList(
    @Tx() tx: TenantTransaction,
    @Param('id', UuidParamPipe) id: string,
    @Query() query: PageQuery,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<EventListDto> {
    const { events, next } = await this.events(tx, id, query);
    setLinks(reply, request, { next });
    return { data: events.map((event) => EventDto.of(event)), next };
  }

  private async events(tx: TenantTransaction, id: string, { limit = DEFAULT_PAGE, cursor }: PageQuery) {
    const rows = await this.past.eventsAfter(
      tx,
      id,
      cursor === undefined ? 0 : readVersionCursor(cursor, id),
      limit + 1,
    );
    const events = rows.slice(0, limit);
    return { events, next: rows.length > limit ? versionCursor(id, events.at(-1)?.version ?? 0) : null };
  }
}
