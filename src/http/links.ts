import type { FastifyReply, FastifyRequest } from 'fastify';

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
