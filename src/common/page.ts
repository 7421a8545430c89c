import { ApiPropertyOptional } from '@nestjs/swagger';
import { Type } from 'class-transformer';
import { IsInt, IsOptional, IsString, Max, Min } from 'class-validator';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { MAX_CURSOR_LENGTH } from './cursor.js';

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

/** RFC 8288 links to other pages of a list: the request's own address with another cursor. No link, no header. */
export function setLinks(
  reply: FastifyReply,
  { url }: FastifyRequest,
  cursors: { next: string | null; prev?: string | null },
): void {
  const [path = '', query = ''] = url.split('?', 2);
  const links = Object.entries(cursors).flatMap(([relation, cursor]) => {
    if (!cursor) return [];
    const parameters = new URLSearchParams(query);
    parameters.set('cursor', cursor);
    return [`<${path}?${parameters.toString()}>; rel="${relation}"`];
  });
  // Fastify sends a header without a value as an empty one, which is no list of links.
  if (links.length > 0) reply.header('link', links.join(', '));
}
