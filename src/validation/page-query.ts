import { ApiPropertyOptional } from '@nestjs/swagger';
import { IsOptional, IsString } from 'class-validator';
import { MAX_CURSOR_LENGTH } from '../common/index.js';
import { IntegerField } from './fields.js';

const MAX_PAGE = 200;
export const DEFAULT_PAGE = 50;

/** A page of any list. */
export class PageQuery {
  @IntegerField({
    optional: true,
    min: 1,
    max: MAX_PAGE,
    default: DEFAULT_PAGE,
    description: 'The most entries that the page has.',
  })
  limit?: number;

  // A longer one is `invalid-cursor`, like any other that can't be read.
  @ApiPropertyOptional({ maxLength: MAX_CURSOR_LENGTH, description: '`next` of the page before, as it is.' })
  @IsOptional()
  @IsString()
  cursor?: string;
}
