import { importTypeScript } from '../../test/support/import-typescript.mjs';

/* The service with one more route, for the price of a key; see unkeyed-route.ts. */
const { serveUnkeyed } = await importTypeScript(new URL('./unkeyed-route.ts', import.meta.url).href);
await serveUnkeyed();
