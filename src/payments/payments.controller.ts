import { Body, Controller, Get, Param, Post, Query, Res } from '@nestjs/common';
import {
  ApiBearerAuth,
  ApiCreatedResponse,
  ApiHeader,
  ApiOkResponse,
  ApiOperation,
  ApiParam,
  ApiResponse,
  ApiTags,
} from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { guardRefused, illegalTransition } from '../workflow/index.js';
import { paymentInProgress } from '../orders/index.js';
import { paymentDeclined, refundExceedsCaptured } from './payments.errors.js';
import {
  ApiProblems,
  malformedBody,
  notFound,
  payloadTooLarge,
  unsupportedMediaType,
  validationFailed,
} from '../problems/index.js';
import { entityTag } from '../http/index.js';
import { NoQuery, UuidParamPipe } from '../validation/index.js';
import { TenantTransaction, Tx } from '../database/index.js';
import { type ExternalWork, Idempotent } from '../idempotency/index.js';
import { READERS, Roles, WRITERS } from '../identity/index.js';
import { AuthorizeBody, CaptureBody, RefundBody } from './dto/payment-body.dto.js';
import { PaymentDto, RefundDto } from './dto/payment.dto.js';
import { PaymentsService } from './payments.service.js';

const ETAG = { ETag: { description: 'The version.', schema: { type: 'string' as const, example: '"2"' } } };
const LOCATION = { Location: { description: 'Address of the payment.', schema: { type: 'string' as const } } };
const PAYMENT_ID = { name: 'id', format: 'uuid', description: 'The payment.' };

/** What happens when the provider is slow or silent, for the documentation of every route that asks it. */
const UNCERTAIN =
  'When the provider does not say what happened, the answer is 503 with `Retry-After`, and the key stays open: send the ' +
  'same request with the same key again. Nothing is ever charged twice for it, and an abandoned request is finished ' +
  'without you. A result that nobody can find out shows as `needs_reconciliation`.';

@ApiTags('payments')
@ApiBearerAuth()
@Controller('v1')
export class PaymentsController {
  constructor(private readonly payments: PaymentsService) {}

  @Post('orders/:id/payments')
  @Idempotent({ external: true })
  @Roles(...WRITERS)
  @ApiOperation({
    operationId: 'authorizePayment',
    summary: 'Have an amount held for an order',
    description: `An order has one live payment at most. ${UNCERTAIN}`,
  })
  @ApiParam({ name: 'id', format: 'uuid', description: 'The order.' })
  @ApiCreatedResponse({ type: PaymentDto, headers: { ...ETAG, ...LOCATION } })
  @ApiProblems(
    malformedBody,
    paymentDeclined,
    notFound,
    paymentInProgress,
    guardRefused,
    validationFailed,
    payloadTooLarge,
    unsupportedMediaType,
  )
  authorize(
    @Param('id', UuidParamPipe) orderId: string,
    @Query() _query: NoQuery,
    @Body() body: AuthorizeBody,
  ): ExternalWork {
    return this.payments.authorize(orderId, body);
  }

  @Get('payments/:id')
  @Roles(...READERS)
  @ApiOperation({ operationId: 'getPayment', summary: 'Read a payment with its refunds' })
  @ApiParam(PAYMENT_ID)
  @ApiHeader({ name: 'If-None-Match', required: false, description: 'An ETag; 304 when it is still the version.' })
  @ApiOkResponse({ type: PaymentDto, headers: ETAG })
  @ApiResponse({ status: 304, description: 'The version is the one that If-None-Match names.' })
  @ApiProblems(notFound)
  async get(
    @Tx() tx: TenantTransaction,
    @Param('id', UuidParamPipe) id: string,
    @Query() _query: NoQuery,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<PaymentDto> {
    const payment = await this.payments.get(tx, id);
    reply.header('etag', entityTag(payment.version));
    return PaymentDto.of(payment);
  }

  @Post('payments/:id/captures')
  @Idempotent({ external: true })
  @Roles(...WRITERS)
  @ApiOperation({
    operationId: 'capturePayment',
    summary: 'Take what is held, or a part of it',
    description: `Once: what is not taken is let go. ${UNCERTAIN}`,
  })
  @ApiParam(PAYMENT_ID)
  @ApiCreatedResponse({ type: PaymentDto, headers: { ...ETAG, ...LOCATION } })
  @ApiProblems(
    malformedBody,
    paymentDeclined,
    notFound,
    paymentInProgress,
    guardRefused,
    illegalTransition,
    validationFailed,
    payloadTooLarge,
    unsupportedMediaType,
  )
  capture(@Param('id', UuidParamPipe) id: string, @Query() _query: NoQuery, @Body() body: CaptureBody): ExternalWork {
    return this.payments.capture(id, body);
  }

  @Post('payments/:id/voids')
  @Idempotent({ external: true })
  @Roles(...WRITERS)
  @ApiOperation({
    operationId: 'voidPayment',
    summary: 'Let go of what is held',
    description: `It takes no body. What was taken already is refunded instead. ${UNCERTAIN}`,
  })
  @ApiParam(PAYMENT_ID)
  @ApiCreatedResponse({ type: PaymentDto, headers: { ...ETAG, ...LOCATION } })
  @ApiProblems(paymentDeclined, notFound, paymentInProgress, guardRefused, illegalTransition)
  void(@Param('id', UuidParamPipe) id: string, @Query() _query: NoQuery): ExternalWork {
    return this.payments.void(id);
  }

  @Post('payments/:id/refunds')
  @Idempotent({ external: true })
  @Roles(...WRITERS)
  @ApiOperation({
    operationId: 'refundPayment',
    summary: 'Give back what was taken, or a part of it',
    description: `Any number of refunds, until all is given back; tax and net are counted as well. ${UNCERTAIN}`,
  })
  @ApiParam(PAYMENT_ID)
  @ApiCreatedResponse({ type: RefundDto, headers: LOCATION })
  @ApiProblems(
    malformedBody,
    paymentDeclined,
    notFound,
    paymentInProgress,
    illegalTransition,
    refundExceedsCaptured,
    validationFailed,
    payloadTooLarge,
    unsupportedMediaType,
  )
  refund(@Param('id', UuidParamPipe) id: string, @Query() _query: NoQuery, @Body() body: RefundBody): ExternalWork {
    return this.payments.refund(id, body);
  }
}
