import { Controller, HttpCode, Param, Post, Query, Req } from '@nestjs/common';
import { ApiBody, ApiOkResponse, ApiOperation, ApiParam, ApiProperty, ApiTags } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { NoQuery } from '../validation/index.js';
import { Public, SignedBody } from '../http/index.js';
import { PaymentWebhooksService } from './payment-webhooks.service.js';

class WebhookReceiptDto {
  @ApiProperty({ example: true, description: 'The event is kept; sending it again changes nothing.' })
  received!: boolean;
}

@ApiTags('payments')
@Controller('v1/payment-webhooks')
export class PaymentWebhooksController {
  constructor(private readonly webhooks: PaymentWebhooksService) {}

  @Post(':provider')
  @HttpCode(200)
  @Public()
  @SignedBody()
  @ApiOperation({
    operationId: 'receivePaymentEvent',
    summary: 'Where payment providers send their events',
    description:
      'Signed by the provider over the bytes of the body; it needs no other credentials and no idempotency key. Each ' +
      'event takes effect once, in any order. Events that mean nothing here are acknowledged and kept.',
  })
  @ApiParam({ name: 'provider', example: 'stripe' })
  @ApiBody({
    schema: {
      description: 'Any JSON, in the words of the provider. What is signed is kept, also what nobody can read.',
    },
  })
  @ApiOkResponse({ type: WebhookReceiptDto })
  async receive(
    @Param('provider') provider: string,
    @Query() _query: NoQuery,
    @Req() request: FastifyRequest,
  ): Promise<WebhookReceiptDto> {
    const { rawBody = Buffer.alloc(0), headers, id: requestId } = request;
    await this.webhooks.receive({ provider, body: rawBody, headers, requestId });
    return { received: true };
  }
}
