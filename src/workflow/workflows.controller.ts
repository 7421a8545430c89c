import { Controller, Get, Param, Query, Req, Res } from '@nestjs/common';
import { ApiBearerAuth, ApiOkResponse, ApiOperation, ApiParam, ApiProduces, ApiTags } from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import Negotiator from 'negotiator';
import { ApiProblems, notAcceptable, notFound } from '../problems/index.js';
import { NoQuery } from '../validation/index.js';
import { READERS, Roles } from '../identity/index.js';
import { toDot, toMermaid, toSvg } from './diagram.js';
import { WorkflowDto, WorkflowListDto } from './dto/workflow.dto.js';
import type { Machine } from './machine.js';
import { DiagramNotAcceptable, WorkflowNotFound } from './workflow.errors.js';
import { WorkflowService } from './workflow.service.js';

const DRAW: Record<string, (machine: Machine) => string | Promise<string>> = {
  'image/svg+xml': toSvg,
  'text/vnd.mermaid': toMermaid,
  'text/vnd.graphviz': toDot,
};
const MEDIA_TYPES = Object.keys(DRAW);

@ApiTags('workflows')
@ApiBearerAuth()
@Roles(...READERS)
@Controller('v1/workflows')
export class WorkflowsController {
  constructor(private readonly workflows: WorkflowService) {}

  @Get()
  @ApiOperation({ operationId: 'listWorkflows', summary: 'The state machines in force' })
  @ApiOkResponse({ type: WorkflowListDto })
  @ApiProblems()
  list(@Query() _query: NoQuery): WorkflowListDto {
    return { data: this.workflows.all().map((machine) => WorkflowDto.of(machine)) };
  }

  @Get(':name')
  @ApiOperation({ operationId: 'getWorkflow', summary: 'One state machine' })
  @ApiParam({ name: 'name', example: 'order' })
  @ApiOkResponse({ type: WorkflowDto })
  @ApiProblems(notFound)
  get(@Param('name') name: string, @Query() _query: NoQuery): WorkflowDto {
    return WorkflowDto.of(this.require(name));
  }

  @Get(':name/diagram')
  @ApiOperation({ operationId: 'getWorkflowDiagram', summary: 'One state machine, drawn' })
  @ApiParam({ name: 'name', example: 'order' })
  @ApiProduces(...MEDIA_TYPES)
  @ApiOkResponse({ schema: { type: 'string' }, description: 'SVG unless Accept asks for Mermaid or DOT.' })
  @ApiProblems(notFound, notAcceptable)
  async diagram(
    @Param('name') name: string,
    @Query() _query: NoQuery,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<Buffer> {
    const machine = this.require(name);
    const mediaType = new Negotiator(request.raw).mediaType(MEDIA_TYPES);
    const draw = mediaType && DRAW[mediaType];
    if (!draw) throw new DiagramNotAcceptable(MEDIA_TYPES);
    reply.header('content-type', `${mediaType}; charset=utf-8`).header('vary', 'Accept');
    return Buffer.from(await draw(machine));
  }

  private require(name: string): Machine {
    const machine = this.workflows.find(name);
    if (!machine) throw new WorkflowNotFound(name);
    return machine;
  }
}
