import { importTypeScript } from './import-typescript.mjs';

/** Jest's global teardown: the run's server and databases go, whatever the tests did. */
export default async function teardown(): Promise<void> {
  const url = new URL('./test-server.ts', import.meta.url).href;
  const { stopTestServer } = await importTypeScript<typeof import('./test-server.js')>(url);
  await stopTestServer();
}
