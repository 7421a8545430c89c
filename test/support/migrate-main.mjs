import { importTypeScript } from './import-typescript.mjs';

/* `node migrate-main.mjs <owner url>`: migrates in a process of its own and prints the names of what it applied as JSON. */

const { migrate } = await importTypeScript(new URL('../../src/database/migrate.ts', import.meta.url).href);
process.stdout.write(JSON.stringify(await migrate(process.argv[2])));
