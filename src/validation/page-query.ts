import { ApiPropertyOptional } from '@nestjs/swagger';
import { Type } from 'class-transformer';
import { IsInt, IsOptional, IsString, Max, Min } from 'class-validator';
import { MAX_CURSOR_LENGTH } from '../common/index.js';

export const MAX_PAGE = 200;
export const DEFAULT_PAGE = 50;

/** A page of any list. */
export class PageQuery {
  @ApiPropertyOptional({
    type: 'integer',
    minimum: 1,
    maximum: MAX_PAGE,
    default: DEFAULT_PAGE,
    description: 'The most entries that the page has.',
  })
  @IsOptional()
  @Type(() => Number)
  @IsInt()
  @Min(1)
  @Max(MAX_PAGE)
  limit?: number;

  @ApiPropertyOptional({ maxLength: MAX_CURSOR_LENGTH, description: '`next` of the page before, as it is.' })
  @IsOptional()
  @IsString()
  cursor?: string;
}
