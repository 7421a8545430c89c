import { Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { FoundExtensions } from './found-extensions.js';
import { WorkflowRepository } from './workflow.repository.js';
import { WorkflowService } from './workflow.service.js';
import { WorkflowsController } from './workflows.controller.js';

@Module({
  imports: [DiscoveryModule],
  controllers: [WorkflowsController],
  providers: [WorkflowService, WorkflowRepository, FoundExtensions],
  exports: [WorkflowService],
})
export class WorkflowModule {}
