import { importTypeScript } from './import-typescript.mjs';

/* The command line from its sources, for tests: `node cli-main.mjs <arguments of waybill>`. */

await importTypeScript(new URL('../../src/cli/main.ts', import.meta.url).href);
