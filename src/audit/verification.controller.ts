import { Controller, Get, HttpCode, Post, Query, Req } from '@nestjs/common';
import { ApiAcceptedResponse, ApiBearerAuth, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { ApiProblems, notFound } from '../problems/index.js';
import { NoQuery } from '../validation/index.js';
import { contextOf, type ContextualRequest, TenantTransaction, Tx } from '../database/index.js';
import { AUDITORS, Roles } from '../identity/index.js';
import { RunningVerificationDto, VerificationDto } from './dto/verification.dto.js';
import { VerificationService } from './verification.service.js';

@ApiTags('audit')
@ApiBearerAuth()
@Roles(...AUDITORS)
@Controller('v1/audit/verification')
export class VerificationController {
  constructor(private readonly verifications: VerificationService) {}

  @Get()
  @ApiOperation({ operationId: 'getVerification', summary: "The last verification's result" })
  @ApiOkResponse({ type: VerificationDto })
  @ApiProblems(notFound)
  last(@Tx() tx: TenantTransaction, @Query() _query: NoQuery): Promise<VerificationDto> {
    return this.verifications.last(tx);
  }

  @Post()
  @HttpCode(202)
  @ApiOperation({
    operationId: 'startVerification',
    summary: 'Start a verification of the whole history of the tenant',
    description:
      'It runs beside the requests; GET shows its result when it has finished. While one is running this names it. It changes nothing of the history, so a retry does no harm and needs no Idempotency-Key.',
  })
  @ApiAcceptedResponse({ type: RunningVerificationDto })
  @ApiProblems()
  start(@Req() request: ContextualRequest, @Query() _query: NoQuery): RunningVerificationDto {
    return this.verifications.start(contextOf(request).tenantId);
  }
}
