import { applyDecorators, SetMetadata, UseInterceptors } from '@nestjs/common';
import { ApiHeader } from '@nestjs/swagger';
import { OpensTransaction } from '../database/index.js';
import { ExternalCallInterceptor } from './external-call.interceptor.js';
import { IDEMPOTENT, type IdempotentOptions, KEY_HEADER } from './idempotent-options.js';
import { IdempotencyInterceptor } from './idempotency.interceptor.js';

/**
 * The handler's effect happens once for each Idempotency-Key, and its first answer is the answer to every retry. POST
 * requires a key; PATCH, PUT and DELETE take one. The handler writes through `@Tx()` alone, and returns what it answers.
 */
export function Idempotent(options: IdempotentOptions = {}): MethodDecorator {
  return applyDecorators(
    SetMetadata(IDEMPOTENT, options),
    OpensTransaction(),
    UseInterceptors(options.external ? ExternalCallInterceptor : IdempotencyInterceptor),
    ApiHeader({ name: KEY_HEADER, required: false }),
  );
}
