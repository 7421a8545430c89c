import { Injectable, type PipeTransform } from '@nestjs/common';

import { DomainError, notFound } from '../problems/index.js';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** For `@Param('id', UuidParamPipe)`: a uuid in lower case, or `not-found`, as no record has another kind of id. */
@Injectable()
export class UuidParamPipe implements PipeTransform<string, string> {
  transform(value: string): string {
    if (!UUID.test(value)) throw new DomainError(notFound, 'There is nothing at this address.');
    return value.toLowerCase();
  }
}
