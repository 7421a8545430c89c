import { importTypeScript } from '../test/support/import-typescript.mjs';

/* `npm run migration:release`: what it does is TypeScript and needs no build. */
try {
  const url = new URL('./migration-release/command.ts', import.meta.url).href;
  const { runCommand } = await importTypeScript(url);
  process.exitCode = await runCommand(process.argv.slice(2));
} catch (error) {
  console.error(error instanceof Error ? (error.stack ?? error.message) : error);
  process.exitCode = 1;
}
