import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** A cable between a service and its database that a test can unplug, pinch or cut. */
export interface TcpProxy {
  port: number;
  /** `url` with this proxy in the place of its host and port. */
  through(url: string): string;
  /** Refuses new connections and cuts the open ones. */
  unplug(): Promise<void>;
  plug(): Promise<void>;
  /** Keeps connections, but nothing passes: what a frozen server or a lost network looks like. */
  freeze(): void;
  thaw(): void;
  /** Delays every chunk in each direction, in milliseconds. */
  slowDown(delayMs: number): void;
  close(): Promise<void>;
}

/** @param plugged false for a database that comes later */
export async function startTcpProxy(targetPort: number, plugged = true): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let delayMs = 0;
  let frozen = false;

  const server: Server = createServer((near) => {
    const far = connect(targetPort, '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      // Whoever resets a connection, the other side learns of it by the close.
      from.on('error', () => undefined);
      from.on('data', (chunk) => {
        if (delayMs === 0) to.write(chunk);
        else setTimeout(() => to.write(chunk), delayMs);
      });
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
      if (frozen) from.pause();
    }
  });
  const listen = async (port: number): Promise<void> => {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  };
  await listen(0);
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;

  const unplug = async (): Promise<void> => {
    if (!server.listening) return;
    server.close();
    for (const socket of sockets) socket.destroy();
    await once(server, 'close');
  };
  const flow = (stop: boolean): void => {
    frozen = stop;
    for (const socket of sockets) {
      if (stop) socket.pause();
      else socket.resume();
    }
  };
  if (!plugged) await unplug();
  return {
    port,
    through: (url) => Object.assign(new URL(url), { host: `127.0.0.1:${port}` }).href,
    unplug,
    plug: () => (server.listening ? Promise.resolve() : listen(port)),
    freeze: () => flow(true),
    thaw: () => flow(false),
    slowDown: (milliseconds) => (delayMs = milliseconds),
    close: unplug,
  };
}
