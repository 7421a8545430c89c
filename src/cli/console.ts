import { relative } from 'node:path';
import type { RunningService } from '../serve.js';

/** What a newcomer needs to go on, printed once the service answers. */
export function announce({ baseUrl, demoFile, demoKey }: RunningService): void {
  const lines = [`Waybill serves ${baseUrl}`, `  API page   ${baseUrl}/docs`, `  OpenAPI    ${baseUrl}/openapi.json`];
  if (demoFile && demoKey) {
    lines.push(
      `  Demo keys  ${relative(process.cwd(), demoFile) || demoFile}`,
      '',
      'A first order:',
      `curl ${baseUrl}/v1/orders -H 'Authorization: Bearer ${demoKey}' -H 'Content-Type: application/json' \\`,
      `  -H "Idempotency-Key: $(uuidgen 2>/dev/null || date +%s%N)" \\`,
      `  -d '{"channel":"web","currency":"EUR","customer":{"ref":"c-42","name":"Ada Example"},"lines":[{"sku":"TEA-1","name":"Green tea","quantity":2,"unitPrice":1299,"taxRatePpm":190000}],"shipping":490}'`,
    );
  }
  console.log(`\n${lines.join('\n')}\n\nCtrl-C stops it.`);
}

/** Waits for SIGINT or SIGTERM, then stops; a second signal doesn't wait. */
export async function untilStopped(stop: () => Promise<void>): Promise<void> {
  await new Promise<void>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => resolve());
  });
  console.log('Stopping …');
  await stop();
}
