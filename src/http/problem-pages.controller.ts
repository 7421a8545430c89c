import { Controller, Get, Header, Param } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';

import {
  DomainError,
  notFound,
  problemOfCode,
  PROBLEM_PAGE_CSP,
  renderProblemIndex,
  renderProblemPage,
} from '../problems/index.js';
import { Public } from './public-route.js';

/** The pages that a problem's `type` leads to. Public and for people, hence not in the OpenAPI document. */
@Public()
@ApiExcludeController()
@Controller('problems')
export class ProblemPagesController {
  @Get()
  @Header('content-type', 'text/html; charset=utf-8')
  @Header('content-security-policy', PROBLEM_PAGE_CSP)
  @Header('cache-control', 'public, max-age=3600')
  index(): string {
    return renderProblemIndex();
  }

  @Get(':code')
  @Header('content-type', 'text/html; charset=utf-8')
  @Header('content-security-policy', PROBLEM_PAGE_CSP)
  @Header('cache-control', 'public, max-age=3600')
  page(@Param('code') code: string): string {
    const problem = problemOfCode(code);
    if (!problem) throw new DomainError(notFound, 'There is no such problem.');
    return renderProblemPage(problem);
  }
}
