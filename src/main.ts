import { announce, untilStopped } from './cli/console.js';
import { loadConfig } from './config.js';
import { serve } from './serve.js';

try {
  const service = await serve(loadConfig(), (line) => console.log(line));
  announce(service);
  await untilStopped(() => service.stop());
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
