import { Body, Controller, Get, HttpCode, Param, Patch, Post, Query, Req, Res } from '@nestjs/common';
import {
  ApiBearerAuth,
  ApiConsumes,
  ApiCreatedResponse,
  ApiOkResponse,
  ApiOperation,
  ApiParam,
  ApiTags,
} from '@nestjs/swagger';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { subjectTaken, wouldLockOut } from './identity.errors.js';
import { ApiProblems, forbidden } from '../problems/index.js';
import { NoQuery, PageQuery, UuidParamPipe } from '../validation/index.js';
import { setLinks } from '../http/index.js';
import { TenantTransaction, Tx } from '../database/index.js';
import { Idempotent } from '../idempotency/index.js';
import { Caller } from './caller.decorator.js';
import type { Credential } from './credential-cache.js';
import { CreateUserBody, PatchUserBody, UserDto, UserListDto } from './dto/user.dto.js';
import { Roles } from './roles.decorator.js';
import { UsersService } from './users.service.js';

const USER_ID = { name: 'id', format: 'uuid' };

@ApiTags('users')
@ApiBearerAuth()
@Roles('admin')
@Controller('v1/users')
export class UsersController {
  constructor(private readonly users: UsersService) {}

  @Get()
  @ApiOperation({ operationId: 'listUsers', summary: 'The users of the tenant, newest first' })
  @ApiOkResponse({ type: UserListDto, headers: { Link: { schema: { type: 'string' } } } })
  async page(
    @Tx() tx: TenantTransaction,
    @Query() query: PageQuery,
    @Req() request: FastifyRequest,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<UserListDto> {
    const { data, next } = await this.users.page(tx, query);
    setLinks(reply, request, { next });
    return { data: data.map((user) => UserDto.of(user)), next };
  }

  @Post()
  @Idempotent({ resource: 'user' })
  @ApiOperation({ operationId: 'createUser', summary: 'Make a user' })
  @ApiCreatedResponse({ type: UserDto, headers: { Location: { schema: { type: 'string' } } } })
  @ApiProblems(forbidden, subjectTaken)
  async create(
    @Tx() tx: TenantTransaction,
    @Query() _query: NoQuery,
    @Body() body: CreateUserBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<UserDto> {
    const user = await this.users.create(tx, body);
    reply.header('location', `/v1/users/${user.id}`);
    return UserDto.of(user);
  }

  @Get(':id')
  @ApiOperation({ operationId: 'getUser', summary: 'One user' })
  @ApiParam(USER_ID)
  @ApiOkResponse({ type: UserDto })
  async get(
    @Tx() tx: TenantTransaction,
    @Param('id', UuidParamPipe) id: string,
    @Query() _query: NoQuery,
  ): Promise<UserDto> {
    return UserDto.of(await this.users.get(tx, id));
  }

  @Patch(':id')
  @Idempotent({ resource: 'user' })
  @ApiOperation({
    operationId: 'patchUser',
    summary: 'Rename a user, change its roles, disable or enable it',
    description: 'Takes effect at once in the process that answers, and within five seconds in others.',
  })
  @ApiParam(USER_ID)
  @ApiConsumes('application/merge-patch+json', 'application/json')
  @ApiOkResponse({ type: UserDto })
  @ApiProblems(forbidden, wouldLockOut)
  async patch(
    @Tx() tx: TenantTransaction,
    @Caller() caller: Credential,
    @Param('id', UuidParamPipe) id: string,
    @Query() _query: NoQuery,
    @Body() body: PatchUserBody,
  ): Promise<UserDto> {
    return UserDto.of(await this.users.update(tx, caller, id, body));
  }

  @Post(':id/erasure')
  @HttpCode(200)
  @Idempotent({ resource: 'user' })
  @ApiOperation({
    operationId: 'eraseUser',
    summary: 'Erase who a person is, for good',
    description:
      'Subject and name go, from the user and from answers kept under idempotency keys, and the user is disabled. What the person did stays, under the user’s id; events hold digests only, so every proof stays valid. Doing it again changes nothing. Somebody who signs in with the same subject later is a new user.',
  })
  @ApiParam(USER_ID)
  @ApiOkResponse({ type: UserDto })
  @ApiProblems(forbidden, wouldLockOut)
  async erase(
    @Tx() tx: TenantTransaction,
    @Caller() caller: Credential,
    @Param('id', UuidParamPipe) id: string,
    @Query() _query: NoQuery,
  ): Promise<UserDto> {
    return UserDto.of(await this.users.erase(tx, caller, id));
  }
}
