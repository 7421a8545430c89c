import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { AuditModule } from '../audit/index.js';
import { WorkflowModule } from '../workflow/index.js';
import { CustomersController } from './customers.controller.js';
import { ErasureService } from './erasure.service.js';
import { OrderHistoryController } from './order-history.controller.js';
import { OrderHistoryService } from './order-history.service.js';
import { OrderRow, OrderStatusChange } from './order.entity.js';
import { OrderList } from './order-list.js';
import { OrdersController } from './orders.controller.js';
import { OrdersRepository } from './orders.repository.js';
import { OrdersService } from './orders.service.js';

@Module({
  imports: [TypeOrmModule.forFeature([OrderRow, OrderStatusChange]), WorkflowModule, AuditModule],
  controllers: [OrdersController, OrderHistoryController, CustomersController],
  providers: [OrdersService, OrderHistoryService, OrderList, OrdersRepository, ErasureService],
  exports: [OrdersService],
})
export class OrdersModule {}
