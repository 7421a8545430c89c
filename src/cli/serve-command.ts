import type { Command } from 'commander';
import { loadConfig } from '../config.js';
import { serve } from '../serve.js';
import { announce, untilStopped } from './console.js';

export function addServeCommand(program: Command): void {
  program
    .command('serve')
    .description('Start the service, with an embedded PostgreSQL unless DATABASE_URL is set')
    .action(runService);
}

/** Serves until it is told to stop. */
export async function runService(): Promise<void> {
  const service = await serve(loadConfig(), (line) => console.log(line));
  announce(service);
  await untilStopped(() => service.stop());
}
