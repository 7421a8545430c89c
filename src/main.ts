import { runService } from './cli/serve-command.js';

try {
  await runService();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
