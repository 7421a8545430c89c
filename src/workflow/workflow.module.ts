import { Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { ExtensionFinder } from './extension-finder.js';
import { StepFigures } from './step-figures.js';
import { WorkflowRepository } from './workflow.repository.js';
import { WorkflowService } from './workflow.service.js';
import { WorkflowsController } from './workflows.controller.js';

@Module({
  imports: [DiscoveryModule],
  controllers: [WorkflowsController],
  providers: [WorkflowService, WorkflowRepository, ExtensionFinder, StepFigures],
  exports: [WorkflowService, StepFigures],
})
export class WorkflowModule {}
