import { relative, resolve } from 'node:path';
import type { RunningService } from '../serve.js';

/** What a newcomer needs to go on, printed once the service answers. */
export function announce({ baseUrl, demoFile }: RunningService): void {
  const lines = [`Waybill serves ${baseUrl}`, `  API page   ${baseUrl}/docs`, `  OpenAPI    ${baseUrl}/openapi.json`];
  if (demoFile) {
    const short = relative(process.cwd(), demoFile);
    const shown = short.startsWith('..') ? resolve(demoFile) : short;
    const key = `$(node -p "JSON.parse(fs.readFileSync('${shown}')).tenants[0].keys.operator")`;
    lines.push(
      `  Demo keys  ${shown}`,
      '  The story  npm run demo (in another terminal): what the service promises, in two minutes',
      '',
      'A first order:',
      `curl ${baseUrl}/v1/orders -H "Authorization: Bearer ${key}" \\`,
      `  -H 'Content-Type: application/json' -H "Idempotency-Key: first-$(date +%s)" \\`,
      `  -d '{"channel":"web","currency":"EUR","customer":{"ref":"c-42","name":"Ada Example"},"lines":[{"sku":"TEA-1","name":"Green tea","quantity":2,"unitPrice":1299,"taxRatePpm":190000}],"shipping":490}'`,
    );
  }
  console.log(`\n${lines.join('\n')}\n\nCtrl-C stops it.`);
}

/** Waits for SIGINT or SIGTERM. A second signal ends the process at once. */
export async function untilStopped(say: (line: string) => void): Promise<void> {
  const signal = await new Promise<string>((resolve) => {
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, resolve);
  });
  say(`${signal}: stopping when all requests are answered …`);
}
