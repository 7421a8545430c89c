import type { FastifyReply, FastifyRequest } from 'fastify';
import { DomainError, invalidParameter } from '../problems/index.js';

/** The version of an entity as a strong ETag. */
export function entityTag(version: number): string {
  return `"${version}"`;
}

const TAG = /^(?:W\/)?"[\x21\x23-\x7e]*"$/;

/**
 * The version that If-Match asks for: null when there is no such header or it takes any version (`*`), and 0, which no
 * entity has, for a tag that can't be one of ours.
 *
 * @throws DomainError `invalid-parameter` when the header can't be read, or names several versions
 */
export function versionOfIfMatch(header: string | undefined): number | null {
  if (header === undefined || header.trim() === '*') return null;
  const tag = header.trim();
  if (!TAG.test(tag)) {
    const detail = 'If-Match must be the ETag of the version that you read, such as "3", or *.';
    throw new DomainError(invalidParameter, detail, { errors: [{ parameter: 'If-Match', detail }] });
  }
  const [, version] = /^"([1-9]\d{0,8})"$/.exec(tag) ?? [];
  return Number(version ?? 0);
}

/** Answers 304 to a GET whose If-None-Match names the ETag that the answer would carry. */
export function answerNotModified(
  request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  done: (error: null, payload: unknown) => void,
): void {
  if (!isKnown(request, reply)) {
    done(null, payload);
    return;
  }
  reply.code(304).removeHeader('content-length').removeHeader('content-type');
  done(null, '');
}

function isKnown({ method, headers }: FastifyRequest, reply: FastifyReply): boolean {
  const tag = reply.getHeader('etag');
  const asked = headers['if-none-match'];
  if (typeof tag !== 'string' || asked === undefined || reply.statusCode !== 200) return false;
  if (method !== 'GET' && method !== 'HEAD') return false;
  return asked.split(',').some((part) => ['*', tag].includes(part.trim().replace(/^W\//, '')));
}
