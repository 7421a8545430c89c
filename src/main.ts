import { runService } from './cli/serve-command.js';
import { redact } from './common/index.js';

try {
  await runService();
} catch (error) {
  console.error(redact(error instanceof Error ? error.message : String(error)));
  process.exitCode = 1;
}
