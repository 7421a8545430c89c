import { importTypeScript } from '../../test/support/import-typescript.mjs';

/* `npm run bench:instructions`: what PostgreSQL executes for a command, counted; see instructions.ts. */
const { benchInstructions } = await importTypeScript(new URL('./instructions.ts', import.meta.url).href);
process.exitCode = await benchInstructions(process.argv.slice(2));
