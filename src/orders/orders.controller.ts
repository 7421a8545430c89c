import { Body, Controller, Get, Headers, Param, Patch, Post, Query, Req, Res } from '@nestjs/common';
import {
  ApiBearerAuth,
  ApiBody,
  ApiConsumes,
  ApiCreatedResponse,
  ApiHeader,
  ApiOkResponse,
  ApiOperation,
  ApiParam,
  ApiResponse,
  ApiTags,
  PartialType,
} from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { alreadyInState, guardRefused, illegalTransition, reasonRequired } from '../workflow/index.js';
import {
  ApiProblems,
  invalidCursor,
  invalidParameter,
  malformedBody,
  notFound,
  payloadTooLarge,
  preconditionRequired,
  staleVersion,
  unsupportedMediaType,
  validationFailed,
} from '../problems/index.js';
import { NoQuery, UuidParamPipe } from '../validation/index.js';
import { entityTag, setLinks, versionOfIfMatch } from '../http/index.js';
import { TenantTransaction, Tx } from '../database/index.js';
import { Idempotent } from '../idempotency/index.js';
import { READERS, Roles, WRITERS } from '../identity/index.js';
import { EditableOrderBody, PlaceOrderBody, TransitionBody } from './dto/order-body.dto.js';
import { OrderDto, OrderListDto, PossibleTransitionsDto } from './dto/order.dto.js';
import { ListOrdersQuery, ReadOrderQuery } from './dto/order-query.dto.js';
import type { OrderDetails } from './order.entity.js';
import { OrderList } from './order-list.js';
import {
  externalRefTaken,
  notEditable,
  paymentInProgress,
  PreconditionRequired,
  totalMismatch,
} from './orders.errors.js';
import { momentOf } from './order-history.service.js';
import { ETAG, LINK, LOCATION, ORDER_ID } from './orders.api.js';
import { OrdersService } from './orders.service.js';

class OrderPatchBody extends PartialType(EditableOrderBody) {}

@ApiTags('orders')
@ApiBearerAuth()
@Controller('v1/orders')
export class OrdersController {
  constructor(
    private readonly orders: OrdersService,
    private readonly list: OrderList,
  ) {}

  @Post()
  @Idempotent({ resource: 'order', besideClaim: true })
  @Roles(...WRITERS)
  @ApiOperation({ operationId: 'placeOrder', summary: 'Place an order' })
  @ApiCreatedResponse({ type: OrderDto, headers: { ...ETAG, ...LOCATION } })
  @ApiProblems(malformedBody, validationFailed, totalMismatch, externalRefTaken, payloadTooLarge, unsupportedMediaType)
  async place(
    @Tx() tx: TenantTransaction,
    @Query() _query: NoQuery,
    @Body() body: PlaceOrderBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<OrderDto> {
    return answer(reply, await this.orders.place(tx, body));
  }

  @Get()
  @Roles(...READERS)
  @ApiOperation({ operationId: 'listOrders', summary: 'List orders' })
  @ApiOkResponse({ type: OrderListDto, headers: LINK })
  @ApiProblems(invalidParameter, invalidCursor)
  async page(
    @Tx() tx: TenantTransaction,
    @Query() query: ListOrdersQuery,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<OrderListDto> {
    const { orders, next, prev, count } = await this.list.page(tx, query);
    setLinks(reply, request, { next, prev });
    return { data: orders.map((order) => OrderDto.of(order)), next, count };
  }

  @Get(':id')
  @Roles(...READERS)
  @ApiOperation({ operationId: 'getOrder', summary: 'Read an order, as it is or as it was' })
  @ApiParam(ORDER_ID)
  @ApiHeader({ name: 'If-None-Match', required: false, description: 'An ETag; 304 when it is still the version.' })
  @ApiOkResponse({ type: OrderDto, headers: ETAG })
  @ApiResponse({ status: 304, description: 'The version is the one that If-None-Match names.' })
  @ApiProblems(notFound, invalidParameter)
  async get(
    @Tx() tx: TenantTransaction,
    @Param('id', UuidParamPipe) id: string,
    @Query() { version, asOf }: ReadOrderQuery,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<OrderDto> {
    const order = await this.orders.get(tx, id, momentOf(version, asOf));
    reply.header('etag', entityTag(order.version));
    return OrderDto.of(order);
  }

  @Patch(':id')
  @Idempotent({ resource: 'order', besideClaim: true })
  @Roles(...WRITERS)
  @ApiOperation({
    operationId: 'patchOrder',
    summary: 'Change an order (RFC 7396 merge-patch)',
    description:
      'Pending: everything below. Confirmed: metadata and contacts. Afterwards: metadata only. Null takes a member away.',
  })
  @ApiParam(ORDER_ID)
  @ApiHeader({ name: 'If-Match', required: true, description: 'The ETag that you read, or * for any version.' })
  @ApiConsumes('application/merge-patch+json', 'application/json')
  @ApiBody({ type: OrderPatchBody })
  @ApiOkResponse({ type: OrderDto, headers: ETAG })
  @ApiProblems(
    malformedBody,
    invalidParameter,
    notFound,
    validationFailed,
    notEditable,
    paymentInProgress,
    staleVersion,
    preconditionRequired,
    payloadTooLarge,
    unsupportedMediaType,
  )
  async patch(
    @Tx() tx: TenantTransaction,
    @Param('id', UuidParamPipe) id: string,
    @Query() _query: NoQuery,
    @Headers('if-match') ifMatch: string | undefined,
    @Body() patch: unknown,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<OrderDto> {
    if (ifMatch === undefined) throw new PreconditionRequired();
    const order = await this.orders.patch(tx, id, patch, versionOfIfMatch(ifMatch));
    reply.header('etag', entityTag(order.version));
    return OrderDto.of(order);
  }

  @Get(':id/transitions')
  @Roles(...READERS)
  @ApiOperation({
    operationId: 'listOrderTransitions',
    summary: 'What this caller may do now, and what blocks the rest',
  })
  @ApiParam(ORDER_ID)
  @ApiOkResponse({ type: PossibleTransitionsDto })
  @ApiProblems(notFound)
  async transitions(
    @Tx() tx: TenantTransaction,
    @Param('id', UuidParamPipe) id: string,
    @Query() _query: NoQuery,
  ): Promise<PossibleTransitionsDto> {
    return this.orders.possibleTransitions(tx, id);
  }

  @Post(':id/transitions')
  @Idempotent({ resource: 'order', besideClaim: true })
  @Roles(...READERS)
  @ApiOperation({
    operationId: 'transitionOrder',
    summary: 'Move an order to another state',
    description: 'Which roles may do it is said by the workflow, step by step.',
  })
  @ApiParam(ORDER_ID)
  @ApiHeader({ name: 'If-Match', required: false, description: 'The ETag that the decision was made on.' })
  @ApiCreatedResponse({ type: OrderDto, headers: { ...ETAG, ...LOCATION } })
  @ApiProblems(
    malformedBody,
    invalidParameter,
    notFound,
    validationFailed,
    reasonRequired,
    illegalTransition,
    alreadyInState,
    guardRefused,
    paymentInProgress,
    staleVersion,
    payloadTooLarge,
    unsupportedMediaType,
  )
  async transition(
    @Tx() tx: TenantTransaction,
    @Param('id', UuidParamPipe) id: string,
    @Query() _query: NoQuery,
    @Headers('if-match') ifMatch: string | undefined,
    @Body() body: TransitionBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<OrderDto> {
    return answer(reply, await this.orders.transition(tx, id, body, versionOfIfMatch(ifMatch)));
  }
}

function answer(reply: FastifyReply, order: OrderDetails): OrderDto {
  reply.header('etag', entityTag(order.version)).header('location', `/v1/orders/${order.id}`);
  return OrderDto.of(order);
}
