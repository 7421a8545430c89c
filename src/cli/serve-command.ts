import type { Command } from 'commander';
import { loadConfig } from '../config.js';
import { createLog } from '../observability/index.js';
import { serve } from '../serve.js';
import { announce, untilStopped } from './console.js';

export function addServeCommand(program: Command): void {
  program
    .command('serve')
    .description('Start the service, with an embedded PostgreSQL unless DATABASE_URL is set')
    .action(runService);
}

/** What still holds the process after its stop gets so long to end by itself. */
const LEFT_OPEN_MS = 1000;

/** Serves until it is told to stop. */
export async function runService(): Promise<void> {
  const config = loadConfig();
  const log = createLog({ level: config.logLevel, format: config.logFormat });
  const say = (line: string): void => log.info(line);
  const service = await serve(config, say).catch((error: unknown) => {
    // It refused, and must not stay for a connection that something left open.
    setTimeout(() => process.exit(), LEFT_OPEN_MS).unref();
    throw error;
  });
  // Before it is announced: who reads that may send a signal at once.
  const toldToStop = untilStopped(say);
  if (config.logFormat === 'text') announce(service);
  // Whoever started the process waits for this line, whatever the level.
  else log.child({}, { level: 'info' }).info({ baseUrl: service.baseUrl }, `Waybill serves ${service.baseUrl} now`);
  await toldToStop;
  // Whoever started the process should see that not everything was answered, and nothing that hangs may keep it alive.
  if (!(await service.stop())) process.exit(1);
  setTimeout(() => {
    say('Everything was answered, but something that an extension or a driver left open still runs; it is cut off.');
    process.exit();
  }, LEFT_OPEN_MS).unref();
}
