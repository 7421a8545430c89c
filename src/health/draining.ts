import type { HandedHooks } from '../http/index.js';

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
 * A hook that tells clients on kept connections not to use them again. Without it such a connection stays open after its last answer
 * until the keep-alive timeout, and the server, which waits for it, can't close.
 */
export function drainingHooks(draining: Draining): Pick<HandedHooks, 'closeWhenDraining'> {
  return {
    closeWhenDraining(_request, reply, _payload, done) {
      if (draining.isDraining) reply.header('connection', 'close');
      done();
    },
  };
}
