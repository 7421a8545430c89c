/*
 * A process that uses an embedded server, for tests that kill it: `node embedded-process.mjs <dataDir> <major>`. Prints
 * one JSON line for each line of the launcher's log and one with the server; leaves on SIGTERM, ignores SIGINT.
 */

const [dataDir, major] = process.argv.slice(2);
const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

process.on('SIGINT', () => say({ log: 'SIGINT' }));
const url = new URL('../../dist/src/database/embedded/index.js', import.meta.url).href;
const { startEmbedded, embeddedBinaries } = await import(url);
const server = await startEmbedded({ dataDir, binaries: embeddedBinaries(major), log: (line) => say({ log: line }) });
say({ server });
const staying = setInterval(() => undefined, 60_000);
process.once('SIGTERM', () => void server.stop().then(() => clearInterval(staying)));
