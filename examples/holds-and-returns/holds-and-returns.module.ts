import { Module } from '@nestjs/common';
import { WorkflowModule } from 'waybill/extension';
import { HoldAlerts } from './on-hold/hold-alerts.js';
import { HoldRecord } from './on-hold/hold-record.js';
import { RiskReviewed } from './on-hold/risk-reviewed.js';
import { ReturnsController } from './returns/returns.controller.js';
import { ReturnsRepository } from './returns/returns.repository.js';
import { ReturnsService } from './returns/returns.service.js';

@Module({
  imports: [WorkflowModule],
  controllers: [ReturnsController],
  providers: [RiskReviewed, HoldRecord, HoldAlerts, ReturnsService, ReturnsRepository],
})
export class HoldsAndReturnsModule {}
