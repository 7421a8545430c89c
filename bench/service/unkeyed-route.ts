import { Body, Controller, Module, Post, Query, Res } from '@nestjs/common';
import type { FastifyReply } from 'fastify';
import { createApp } from '../../src/app.js';
import { entityTag } from '../../src/http/index.js';
import { NoQuery } from '../../src/validation/index.js';
import { loadConfig } from '../../src/config.js';
import { InTransaction, TenantTransaction, Tx } from '../../src/database/index.js';
import { Roles, WRITERS } from '../../src/identity/index.js';
import { PlaceOrderBody } from '../../src/orders/dto/order-body.dto.js';
import { OrderDto } from '../../src/orders/dto/order.dto.js';
import { OrdersModule } from '../../src/orders/orders.module.js';
import { OrdersService } from '../../src/orders/orders.service.js';

/** POST /v1/orders once more, without a key. */
@Controller('bench/orders')
class UnkeyedOrdersController {
  constructor(private readonly orders: OrdersService) {}

  @Post()
  @InTransaction()
  @Roles(...WRITERS)
  async place(
    @Tx() tx: TenantTransaction,
    @Query() _query: NoQuery,
    @Body() body: PlaceOrderBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<OrderDto> {
    const order = await this.orders.place(tx, body);
    reply.header('etag', entityTag(order.version)).header('location', `/v1/orders/${order.id}`);
    return OrderDto.of(order);
  }
}

@Module({ imports: [OrdersModule], controllers: [UnkeyedOrdersController] })
export class UnkeyedModule {}

export async function serveUnkeyed(): Promise<void> {
  const config = loadConfig();
  if (!config.database) throw new Error('DATABASE_URL is not set');
  const app = await createApp({ ...config, database: config.database }, [UnkeyedModule]);
  await app.listen(config.port, config.host);
}
