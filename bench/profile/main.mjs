import { importTypeScript } from '../../test/support/import-typescript.mjs';

/* `npm run bench:profile`: where the time of a create goes; see create-path.ts. */
try {
  const { profileCreatePath } = await importTypeScript(new URL('./create-path.ts', import.meta.url).href);
  await profileCreatePath(process.argv.slice(2));
} catch (error) {
  console.error(error instanceof Error ? (error.stack ?? error.message) : error);
  process.exitCode = 1;
}
