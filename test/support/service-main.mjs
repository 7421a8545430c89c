import { importTypeScript } from './import-typescript.mjs';

/*
 * The service in a process of its own, for tests that need another environment (time zone) or want to kill it. Takes its
 * settings from the environment; prints one JSON line with its address once it listens, and ends on SIGTERM.
 */

const { loadConfig } = await importTypeScript(new URL('../../src/config.ts', import.meta.url).href);
const { createApp } = await importTypeScript(new URL('../../src/app.ts', import.meta.url).href);
const config = loadConfig();
const app = await createApp(config);
await app.listen(0, '127.0.0.1');
const offset = new Date('2026-07-01T12:00:00Z').getTimezoneOffset();
process.stdout.write(`${JSON.stringify({ baseUrl: await app.getUrl(), timezoneOffset: offset })}\n`);
process.once('SIGTERM', () => void app.close());
