import { type CanActivate, type ExecutionContext, Injectable, type Type } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { FastifyRequest } from 'fastify';
import { PUBLIC_ROUTE } from '../http/index.js';
import { RoleRequired } from './identity.errors.js';
import { type AuthenticatedRequest, RequestGate } from './request-gate.js';
import { ROUTE_ROLES } from './roles.decorator.js';

type Place = ReturnType<ExecutionContext['getHandler']> | Type;

/** May the caller use this route? One that says neither `@Public()` nor `@Roles()` is closed. */
@Injectable()
export class AuthGuard implements CanActivate {
  constructor(
    private readonly reflector: Reflector,
    private readonly gate: RequestGate,
  ) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const places: Place[] = [context.getHandler(), context.getClass()];
    if (this.reflector.getAllAndOverride<boolean>(PUBLIC_ROUTE, places)) return true;
    const request = context.switchToHttp().getRequest<FastifyRequest & AuthenticatedRequest>();
    // The gate has asked already, unless somebody mounted the route in a way that it doesn't know.
    if (!request.principal) await this.gate.authenticate(request);
    const roles = this.reflector.getAllAndOverride<readonly string[]>(ROUTE_ROLES, places) ?? [];
    if (!roles.some((role) => request.principal?.roles.includes(role))) throw new RoleRequired(roles);
    return true;
  }
}
