import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { waitsForWord } from './body-reader.js';

/** Most bytes of a body that are read and thrown away after its answer. */
const MOST_BYTES = 33_554_432;

/** Sockets on which the rest of an answered request still arrives. */
const discarding = new WeakSet<Socket>();

/** Whether a socket's last request is answered, though not all of it came. */
export function isDiscarding(socket: Socket): boolean {
  return discarding.has(socket);
}

/**
 * When a request is answered before its body was read, the rest is read and thrown away. Closing the connection instead, with
 * bytes of the client still on their way, would take the answer from it: most clients look for one only when all is sent, and
 * what they find then is a broken connection, which they take for a reason to send it all again. A body that goes on beyond
 * 32 MiB, or beyond the time for a request, ends the connection.
 */
export function discardBody<Payload>(
  request: FastifyRequest,
  reply: FastifyReply,
  payload: Payload,
  done: (error: null, payload: Payload) => void,
): void {
  const { raw } = request;
  if (raw.complete || !announcesBody(raw)) {
    done(null, payload);
    return;
  }
  // Node closes the connection with the answer's last byte when either side wants that, so the answer waits then.
  const closes = !reply.raw.shouldKeepAlive || reply.getHeader('connection') === 'close';
  const waits = closes && !waitsForWord(raw);
  const answer = (): void => done(null, payload);
  discard(raw, waits ? answer : undefined);
  if (!waits) answer();
}

function announcesBody({ headers }: IncomingMessage): boolean {
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = headers;
  return encoding !== undefined || length !== '0';
}

/** @param whenGone called once, when the body has ended, or was too much */
function discard(raw: IncomingMessage, whenGone?: () => void): void {
  const { socket } = raw;
  let left = MOST_BYTES;
  discarding.add(socket);
  const take = (chunk: Buffer): void => {
    left -= chunk.length;
    if (left >= 0) return;
    raw.off('data', take);
    end();
    if (!whenGone) socket.destroy();
  };
  let isOver = false;
  const end = (): void => {
    if (isOver) return;
    isOver = true;
    discarding.delete(socket);
    whenGone?.();
  };
  raw.on('data', take).once('end', end).once('error', end).once('close', end);
}
