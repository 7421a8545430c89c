import { Injectable, type PipeTransform } from '@nestjs/common';

import { isUuid } from '../common/index.js';
import { DomainError, notFound } from '../problems/index.js';

/** For `@Param('id', UuidParamPipe)`: a uuid in lower case, or `not-found`, as no record has another kind of id. */
@Injectable()
export class UuidParamPipe implements PipeTransform<string, string> {
  transform(value: string): string {
    const id = value.toLowerCase();
    if (!isUuid(id)) throw new DomainError(notFound, 'There is nothing at this address.');
    return id;
  }
}
