import { connect, createServer, type Server, type Socket } from 'node:net';

/**
 * When a connection is killed: before the request is passed on, when the service has answered and nothing of it has been
 * passed back, or after this many bytes of the answer.
 */
export type Cut = 'before-request' | 'before-answer' | { afterBytes: number };

/** A TCP proxy before a service, for clients that must outlive a killed connection. */
export class CuttingProxy {
  /** Connections that were killed so far. */
  cuts = 0;
  private readonly planned: Cut[] = [];
  private readonly sockets = new Set<Socket>();

  private constructor(
    private readonly server: Server,
    private readonly target: URL,
  ) {}

  static async start(targetUrl: string): Promise<CuttingProxy> {
    const server = createServer();
    const proxy = new CuttingProxy(server, new URL(targetUrl));
    server.on('connection', (socket) => proxy.serve(socket));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get url(): string {
    const address = this.server.address();
    return `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
  }

  /** Each of the next requests is cut in its way, one after another. */
  cutNext(...cuts: Cut[]): void {
    this.planned.push(...cuts);
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private serve(client: Socket): void {
    const service = connect(Number(this.target.port), this.target.hostname);
    for (const socket of [client, service]) {
      this.sockets.add(socket);
      socket.on('close', () => this.sockets.delete(socket));
      // A cut is what these tests are about; whoever reads the connection sees it.
      socket.on('error', () => this.end(client, service));
    }
    let cut: Cut | undefined;
    let passed = 0;
    client.on('data', (bytes) => {
      cut = this.planned.shift() ?? cut;
      if (cut === 'before-request') this.kill(client, service);
      else service.write(bytes);
    });
    service.on('data', (bytes) => {
      if (cut === undefined) return void client.write(bytes);
      const most = typeof cut === 'object' ? cut.afterBytes : 0;
      if (passed < most) client.write(bytes.subarray(0, most - passed), () => this.kill(client, service));
      else this.kill(client, service);
      passed += bytes.length;
    });
    client.on('close', () => service.destroy());
    service.on('close', () => client.destroy());
  }

  private kill(client: Socket, service: Socket): void {
    if (!client.destroyed) this.cuts += 1;
    this.end(client, service);
  }

  private end(client: Socket, service: Socket): void {
    client.destroy();
    service.destroy();
  }
}
