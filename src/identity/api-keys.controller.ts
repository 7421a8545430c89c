import { Body, Controller, Delete, Get, HttpCode, Param, Post, Query, Req, Res } from '@nestjs/common';
import {
  ApiBearerAuth,
  ApiCreatedResponse,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiOperation,
  ApiParam,
  ApiTags,
} from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { wouldLockOut } from './identity.errors.js';
import { ApiProblems, forbidden } from '../problems/index.js';
import { NoQuery, UuidParamPipe } from '../validation/index.js';
import { setLinks } from '../http/index.js';
import { TenantTransaction, Tx } from '../database/index.js';
import { ApiKeysService } from './api-keys.service.js';
import { Idempotent } from '../idempotency/index.js';
import { Caller } from './caller.decorator.js';
import type { Credential } from './credential-cache.js';
import { ApiKeyDto, ApiKeyListDto, CreateApiKeyBody, ListApiKeysQuery, NewApiKeyDto } from './dto/api-key.dto.js';
import { Roles } from './roles.decorator.js';

const KEY_ID = { name: 'id', format: 'uuid' };

@ApiTags('api-keys')
@ApiBearerAuth()
@Roles('admin')
@Controller('v1/api-keys')
export class ApiKeysController {
  constructor(private readonly apiKeys: ApiKeysService) {}

  @Get()
  @ApiOperation({ operationId: 'listApiKeys', summary: 'The API keys of the tenant, newest first' })
  @ApiOkResponse({ type: ApiKeyListDto, headers: { Link: { schema: { type: 'string' } } } })
  async page(
    @Tx() tx: TenantTransaction,
    @Query() query: ListApiKeysQuery,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<ApiKeyListDto> {
    const { data, next } = await this.apiKeys.page(tx, query);
    setLinks(reply, request, { next });
    return { data: data.map((key) => ApiKeyDto.of(key)), next };
  }

  @Post()
  @Idempotent({ kept: (made: NewApiKeyDto) => made.withoutSecret() })
  @ApiOperation({
    operationId: 'createApiKey',
    summary: 'Make an API key',
    description:
      'The first answer is the only place where the secret can be seen, and it is stored nowhere. A retry with the same ' +
      'Idempotency-Key makes no second key: it names the one that was made, with `secret: null` and `secretShown: true`. ' +
      'Where the first answer was lost, revoke that key and make another with a new Idempotency-Key.',
  })
  @ApiCreatedResponse({ type: NewApiKeyDto, headers: { Location: { schema: { type: 'string' } } } })
  @ApiProblems(forbidden)
  async create(
    @Tx() tx: TenantTransaction,
    @Query() _query: NoQuery,
    @Body() body: CreateApiKeyBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<NewApiKeyDto> {
    const made = await this.apiKeys.create(tx, body);
    reply.header('location', `/v1/api-keys/${made.id}`);
    return NewApiKeyDto.shownOnce(made);
  }

  @Get(':id')
  @ApiOperation({ operationId: 'getApiKey', summary: 'One API key' })
  @ApiParam(KEY_ID)
  @ApiOkResponse({ type: ApiKeyDto })
  async get(
    @Tx() tx: TenantTransaction,
    @Param('id', UuidParamPipe) id: string,
    @Query() _query: NoQuery,
  ): Promise<ApiKeyDto> {
    return ApiKeyDto.of(await this.apiKeys.get(tx, id));
  }

  @Delete(':id')
  @Idempotent()
  @HttpCode(204)
  @ApiOperation({
    operationId: 'revokeApiKey',
    summary: 'Revoke an API key for good',
    description: 'Takes effect at once in the process that answers, and within five seconds in others.',
  })
  @ApiParam(KEY_ID)
  @ApiNoContentResponse({ description: 'It is revoked, now or before.' })
  @ApiProblems(wouldLockOut)
  async revoke(
    @Tx() tx: TenantTransaction,
    @Caller() caller: Credential,
    @Param('id', UuidParamPipe) id: string,
    @Query() _query: NoQuery,
  ): Promise<void> {
    await this.apiKeys.revoke(tx, caller, id);
  }
}
