import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** What stands between a service and its database, and lets a test cut the line. */
export interface DatabaseProxy {
  /** The database's address through the proxy. */
  url: string;
  /** Breaks every connection and refuses new ones. */
  down(): Promise<void>;
  up(): Promise<void>;
  /** The next COMMIT reaches the database, but its answer is lost with the connection. */
  loseNextCommitAnswer(): void;
  close(): Promise<void>;
}

export async function startDatabaseProxy(databaseUrl: string): Promise<DatabaseProxy> {
  const target = new URL(databaseUrl);
  const sockets = new Set<Socket>();
  let losing = false;

  const relay = (client: Socket): void => {
    const database = connect(Number(target.port), target.hostname);
    let mute = false;
    client.on('data', (chunk) => {
      if (losing && chunk.includes('COMMIT\0')) {
        losing = false;
        mute = true;
      }
      database.write(chunk);
    });
    database.on('data', (chunk) => {
      // The database has answered, so the transaction is committed; nobody hears of it.
      if (mute) client.destroy();
      else client.write(chunk);
    });
    for (const [socket, other] of [
      [client, database],
      [database, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
  };

  let server: Server = createServer(relay);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;

  const down = async (): Promise<void> => {
    const closed = once(server, 'close');
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  const url = Object.assign(new URL(databaseUrl), { host: `127.0.0.1:${port}` }).href;
  return {
    url,
    down,
    up: async () => {
      server = createServer(relay);
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
    },
    loseNextCommitAnswer: () => {
      losing = true;
    },
    close: down,
  };
}
