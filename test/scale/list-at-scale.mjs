import { importTypeScript } from '../support/import-typescript.mjs';

/* Loads TypeScript in plain Node, then runs list-at-scale.ts: `node test/scale/list-at-scale.mjs --help`. */

const { main } = await importTypeScript(new URL('./list-at-scale.ts', import.meta.url).href);
process.exitCode = await main(process.argv.slice(2));
