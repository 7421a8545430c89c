import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { Credential } from './credential-cache.js';
import { Unauthenticated } from './identity.errors.js';
import type { AuthenticatedRequest } from './request-gate.js';

/** The credential that the request came with, as a handler's parameter. */
export const Caller = createParamDecorator((_data: unknown, context: ExecutionContext): Credential => {
  const { credential } = context.switchToHttp().getRequest<AuthenticatedRequest>();
  if (!credential) throw new Unauthenticated();
  return credential;
});
