import type { FastifyInstance } from 'fastify';

/** Whether this process is about to end: it still answers, but wants no new work. */
export class Draining {
  private begun = false;

  get isDraining(): boolean {
    return this.begun;
  }

  begin(): void {
    this.begun = true;
  }
}

/**
 * Tells clients on kept connections not to use them again. Without it such a connection stays open after its last answer
 * until the keep-alive timeout, and the server, which waits for it, can't close.
 */
export function closeConnectionsWhenDraining(fastify: FastifyInstance, draining: Draining): void {
  fastify.addHook('onSend', (_request, reply, _payload, done) => {
    if (draining.isDraining) reply.header('connection', 'close');
    done();
  });
}
