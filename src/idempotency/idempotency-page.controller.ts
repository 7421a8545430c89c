import { Controller, Get, Header, Inject } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { PROBLEM_PAGE_CSP } from '../problems/index.js';
import { Public } from '../http/index.js';
import { IDEMPOTENCY_PAGE } from './idempotency.errors.js';
import { renderIdempotencyPage } from './idempotency-page.js';
import { IDEMPOTENCY_POLICY, type IdempotencyPolicy } from './policy.js';

/** The page that problems about keys lead to. Public and for people, hence not in the OpenAPI document. */
@Public()
@ApiExcludeController()
@Controller(IDEMPOTENCY_PAGE)
export class IdempotencyPageController {
  constructor(@Inject(IDEMPOTENCY_POLICY) private readonly policy: IdempotencyPolicy) {}

  @Get()
  @Header('content-type', 'text/html; charset=utf-8')
  @Header('content-security-policy', PROBLEM_PAGE_CSP)
  @Header('cache-control', 'public, max-age=3600')
  page(): string {
    return renderIdempotencyPage(this.policy);
  }
}
