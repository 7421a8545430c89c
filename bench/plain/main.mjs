import { importTypeScript } from '../../test/support/import-typescript.mjs';

/* The comparison: the create route as a team writes it in a day. See plain-app.ts. */
const { servePlain } = await importTypeScript(new URL('./plain-app.ts', import.meta.url).href);
await servePlain(process.env.DATABASE_URL, Number(process.env.PORT));
