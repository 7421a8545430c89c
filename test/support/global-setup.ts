import { importTypeScript } from './import-typescript.mjs';

/** Jest's global setup: one PostgreSQL server for the run, with a migrated template database for `createTestDatabase`. */
export default async function setup(): Promise<void> {
  const url = new URL('./test-server.ts', import.meta.url).href;
  const { startTestServer } = await importTypeScript<typeof import('./test-server.js')>(url);
  await startTestServer();
}
