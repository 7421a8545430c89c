import { importTypeScript } from '../test/support/import-typescript.mjs';

/* `npm run bench`: the benchmark is TypeScript and needs no build of its own; the service that it measures is built. */
try {
  const { runBench } = await importTypeScript(new URL('./bench.ts', import.meta.url).href);
  process.exitCode = await runBench(process.argv.slice(2));
} catch (error) {
  console.error(error instanceof Error ? (error.stack ?? error.message) : error);
  process.exitCode = 1;
}
