import type { FastifyReply, FastifyRequest } from 'fastify';

const HEADER = 'x-forwarded-for';
/** `203.0.113.7:50001`, `[2001:db8::7]` and `[2001:db8::7]:50001`; quotes come from proxies that know RFC 7239. */
const WITH_PORT = /^"?(?:\[([0-9a-f:.]+)(?:%[^\]]*)?\]|(\d+\.\d+\.\d+\.\d+))(?::\d+)?"?$/i;

/**
 * Takes the ports out of X-Forwarded-For, which some proxies add: a caller would have another address with each connection,
 * and a hop that is trusted would not be found among the addresses that are. Before anybody asks for the request's address.
 */
export function forgetForwardedPorts({ raw }: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  const given = raw.headers[HEADER];
  if (typeof given === 'string') raw.headers[HEADER] = given.split(',').map(withoutPort).join(',');
  done();
}

/** What is no address with a port stays as it is. */
function withoutPort(hop: string): string {
  const [, bracketed, plain] = WITH_PORT.exec(hop.trim()) ?? [];
  return bracketed ?? plain ?? hop;
}
