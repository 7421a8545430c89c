import { Agent, request } from 'node:http';
import type { Exchange } from '../../support/document-check.js';
import type { PlannedInput } from './plan-input.js';

/** Sends a request as it is, with paths and headers that `fetch` would put right. */
export class InputSender {
  private readonly agent = new Agent({ keepAlive: true, maxSockets: 1 });

  /** @param keys by the name of who calls */
  constructor(
    private readonly baseUrl: string,
    private readonly keys: Readonly<Record<string, string>>,
  ) {}

  send({ method, path, headers, caller, body }: PlannedInput): Promise<Exchange> {
    const { hostname, port } = new URL(this.baseUrl);
    const key = this.keys[caller];
    const authorization: Record<string, string> = key ? { authorization: `Bearer ${key}` } : {};
    const length: Record<string, number> = body ? { 'content-length': body.length } : {};
    return new Promise((resolve, reject) => {
      const options = { hostname, port, method, path, agent: this.agent };
      const sent = request({ ...options, headers: { ...authorization, ...headers, ...length } }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.once('error', reject);
        response.once('end', () => {
          const { statusCode: status = 0, headers: answered } = response;
          const text = Buffer.concat(chunks).toString();
          resolve({
            method,
            path,
            requestBody: parsed(body),
            status,
            headers: new Headers(
              Object.entries(answered).map(([name, value]): [string, string] => [name, String(value)]),
            ),
            text,
          });
        });
      });
      sent.once('error', reject);
      sent.end(body);
    });
  }

  close(): void {
    this.agent.destroy();
  }
}

/** What a body says; undefined when it is no JSON. */
function parsed(body: Buffer | undefined): unknown {
  try {
    return body && (JSON.parse(body.toString()) as unknown);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
