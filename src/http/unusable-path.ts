import type { FastifyReply, FastifyRequest } from 'fastify';
import { DomainError, notFound } from '../problems/index.js';

/**
 * An address with a NUL in it (`%00`) names nothing, since PostgreSQL holds no text with one.
 *
 * @throws DomainError `not-found`
 */
export function refuseUnusablePath({ params }: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  const parts = Object.values((params ?? {}) as Record<string, string>);
  if (parts.some((part) => part.includes('\0'))) {
    throw new DomainError(notFound, 'There is nothing at this address: it holds a NUL character.');
  }
  done();
}
