import { importTypeScript } from './import-typescript.mjs';

/* The command line from its sources: `node waybill-main.mjs <command> …` is `waybill <command> …`. */
await importTypeScript(new URL('../../src/cli/main.ts', import.meta.url).href);
