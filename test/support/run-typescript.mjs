import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { importTypeScript } from './import-typescript.mjs';

/*
 * Runs a TypeScript program in a process of its own, as the built one would: `node run-typescript.mjs src/main.ts …`.
 * Its arguments are the program's.
 */

const [node, , program, ...words] = process.argv;
const file = join(import.meta.dirname, '../..', program);
process.argv = [node, file, ...words];
await importTypeScript(pathToFileURL(file).href);
