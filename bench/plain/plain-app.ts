import {
  Body,
  type CanActivate,
  Controller,
  type ExecutionContext,
  Get,
  Injectable,
  Module,
  Post,
  UnauthorizedException,
  UseGuards,
  ValidationPipe,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { TypeOrmModule } from '@nestjs/typeorm';
import { randomBytes } from 'node:crypto';
import { idempotency } from 'express-idempotency';
import { DataSource } from 'typeorm';
import { PlainApiKey, PlainAudit, PlainHistory, PlainLine, PlainOrder } from './entities.js';
import { KeyStore } from './key-store.js';
import { PlainOrderBody } from './plain-body.js';

/*
 * The create route as a team writes it in a day: Express, entities, `save()` in a transaction, a ValidationPipe, a guard
 * that looks the key up, and a middleware from npm for idempotency with its own store, in memory. It has no row level
 * security, no rules in the database, no hash chain, no second tenant, and its keys are gone after a restart.
 */

@Injectable()
class PlainGuard implements CanActivate {
  constructor(private readonly dataSource: DataSource) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = context.switchToHttp().getRequest<{ headers: Record<string, string | undefined> }>();
    const key = request.headers.authorization?.replace('Bearer ', '');
    const found = key ? await this.dataSource.getRepository(PlainApiKey).findOneBy({ key }) : null;
    if (!found) throw new UnauthorizedException();
    return true;
  }
}

@Controller()
class PlainController {
  constructor(private readonly dataSource: DataSource) {}

  @Get('health/ready')
  ready(): object {
    return { status: 'ok' };
  }

  @Post('orders')
  @UseGuards(PlainGuard)
  create(@Body() body: PlainOrderBody): Promise<PlainOrder> {
    return this.dataSource.transaction(async (manager) => {
      const lines = body.lines.map((line) => {
        const net = line.quantity * line.unitPrice - line.discount;
        const tax = Math.round((net * line.taxRatePpm) / 1_000_000);
        return { ...line, tax, total: net + tax };
      });
      const subtotal = lines.reduce((sum, line) => sum + line.quantity * line.unitPrice - line.discount, 0);
      const tax = lines.reduce((sum, line) => sum + line.tax, 0);
      const order = await manager.getRepository(PlainOrder).save({
        number: randomBytes(5).toString('hex'),
        channel: body.channel,
        externalRef: body.externalRef,
        customerRef: body.customer.ref,
        customer: body.customer,
        shippingAddress: body.shippingAddress,
        currency: body.currency,
        subtotal,
        tax,
        shipping: body.shipping,
        total: subtotal + tax + body.shipping,
        metadata: body.metadata,
        lines,
      });
      await manager.getRepository(PlainHistory).save({ orderId: order.id, toStatus: order.status, changedBy: 'plain' });
      await manager.getRepository(PlainAudit).save({ orderId: order.id, snapshot: order });
      return order as PlainOrder;
    });
  }
}

export async function servePlain(url: string, port: number): Promise<void> {
  const entities = [PlainOrder, PlainLine, PlainHistory, PlainAudit, PlainApiKey];

  @Module({
    imports: [
      TypeOrmModule.forRoot({ type: 'postgres', url, entities, synchronize: true, poolSize: 8, logging: false }),
    ],
    controllers: [PlainController],
  })
  class PlainModule {}

  const app = await NestFactory.create(PlainModule, new ExpressAdapter(), { logger: ['error'] });
  app.use(idempotency({ dataAdapter: new KeyStore() }));
  app.useGlobalPipes(new ValidationPipe({ whitelist: true, transform: true }));
  await app.get(DataSource).getRepository(PlainApiKey).save({ key: 'plain', user: 'plain' });
  await app.listen(port, '127.0.0.1');
}
