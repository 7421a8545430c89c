/* `node migrate-main.mjs <owner url>`: migrates in a process of its own and prints the names of what it applied as JSON. */

const { migrate } = await import(new URL('../../dist/src/database/migrate.js', import.meta.url).href);
process.stdout.write(JSON.stringify(await migrate(process.argv[2])));
