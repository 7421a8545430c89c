import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { FastifyRequest } from 'fastify';
import { PUBLIC_ROUTE } from '../common/index.js';
import type { ContextualRequest, Principal } from '../database/index.js';
import { isSameHash, parseApiKey } from './api-key.js';
import { ApiKeysRepository } from './api-keys.repository.js';
import { RoleRequired, Unauthenticated } from './identity.errors.js';
import { ROUTE_ROLES } from './roles.decorator.js';

/** Who is calling, and may they use this route. A route that says neither `@Public()` nor `@Roles()` is closed. */
@Injectable()
export class AuthGuard implements CanActivate {
  constructor(
    private readonly reflector: Reflector,
    private readonly apiKeys: ApiKeysRepository,
  ) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const places = [context.getHandler(), context.getClass()];
    if (this.reflector.getAllAndOverride<boolean>(PUBLIC_ROUTE, places)) return true;
    const request = context.switchToHttp().getRequest<FastifyRequest & ContextualRequest>();
    request.principal = await this.authenticate(request);
    const roles = this.reflector.getAllAndOverride<readonly string[]>(ROUTE_ROLES, places) ?? [];
    if (!roles.some((role) => request.principal?.roles.includes(role))) throw new RoleRequired(roles);
    return true;
  }

  private async authenticate(request: FastifyRequest): Promise<Principal> {
    const [, token] = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? '') ?? [];
    if (!token) throw new Unauthenticated();
    const given = parseApiKey(token);
    const known = given && (await this.apiKeys.findUsable(given.tenantId, given.prefix, request.id));
    if (!given || !known || !isSameHash(given.hash, known.hash)) {
      throw new Unauthenticated('The API key is unknown, expired or revoked.');
    }
    return { tenantId: given.tenantId, userId: known.userId, roles: known.roles };
  }
}
