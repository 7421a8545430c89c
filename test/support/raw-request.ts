import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** Connects to a service and sends these bytes, as text or not, without reading anything yet. */
export async function openConnection(baseUrl: string): Promise<Socket> {
  const socket = connect(Number(new URL(baseUrl).port), '127.0.0.1').pause();
  await once(socket, 'connect');
  return socket;
}

/** The head of a request in the words of HTTP. */
export function head(method: string, path: string, headers: Record<string, string | number>): string {
  const lines = Object.entries({ host: 'x', ...headers }).map(([name, value]) => `${name}: ${value}`);
  return `${[`${method} ${path} HTTP/1.1`, ...lines].join('\r\n')}\r\n\r\n`;
}

/**
 * Sends all of a request before it looks for an answer, as Python's http.client and many other clients do.
 *
 * @returns the status
 * @throws Error when the connection breaks before all is sent, or without an answer
 */
export async function sendThenRead(baseUrl: string, requestHead: string, body: Uint8Array): Promise<number> {
  const socket = await openConnection(baseUrl);
  try {
    for (const bytes of [Buffer.from(requestHead), body]) {
      await new Promise<void>((resolve, reject) => {
        socket.once('error', reject);
        socket.write(bytes, (error) => (error ? reject(error) : resolve()));
      });
    }
    return await statusOf(socket);
  } finally {
    socket.destroy();
  }
}

/** The status of the next answer on a connection. */
export async function statusOf(socket: Socket): Promise<number> {
  const text = await textUntil(socket, (received) => /^HTTP\/1\.1 \d{3} [^]*\r\n\r\n/.test(received));
  const [, status] = /^HTTP\/1\.1 (\d{3}) /.exec(text) ?? [];
  if (!status) throw new Error(`The connection ended without an answer: ${text.slice(0, 100)}`);
  return Number(status);
}

/** What comes on a connection until it is enough, or until the other side ends it. */
export function textUntil(socket: Socket, isEnough: (received: string) => boolean): Promise<string> {
  return new Promise((resolve, reject) => {
    let received = '';
    socket.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1');
      if (isEnough(received)) resolve(received);
    });
    socket.once('error', reject).once('close', () => resolve(received));
    socket.resume();
  });
}
