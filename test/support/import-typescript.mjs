import { readFile } from 'node:fs/promises';
import { register } from 'node:module';
import { fileURLToPath } from 'node:url';
import { transform } from '@swc/core';

/*
 * Loads TypeScript sources in plain Node. Jest transforms test files, but it loads its global setup outside of that
 * machinery: as CommonJS, without the mapping of `./x.js` to `./x.ts`, so the setup can't import the service's modules.
 */

let registered = false;

/** Imports a TypeScript module, whose own imports may be TypeScript too. */
export async function importTypeScript(url) {
  // This very file, loaded once more in Node's thread for such hooks, where `resolve` and `load` below are called.
  if (!registered) register(import.meta.url);
  registered = true;
  return import(url);
}

/** `./x.js` in a TypeScript source means `./x.ts`. */
export async function resolve(specifier, context, nextResolve) {
  if (specifier.startsWith('.') && specifier.endsWith('.js') && context.parentURL?.endsWith('.ts')) {
    return nextResolve(specifier.replace(/\.js$/, '.ts'), context).catch(() => nextResolve(specifier, context));
  }
  return nextResolve(specifier, context);
}

export async function load(url, context, nextLoad) {
  if (!url.startsWith('file:') || !url.endsWith('.ts')) return nextLoad(url, context);
  const filename = fileURLToPath(url);
  const { code } = await transform(await readFile(filename, 'utf8'), {
    filename,
    swcrc: false,
    sourceMaps: 'inline',
    module: { type: 'es6' },
    jsc: {
      target: 'es2022',
      keepClassNames: true,
      parser: { syntax: 'typescript', decorators: true },
      transform: { legacyDecorator: true, decoratorMetadata: true, useDefineForClassFields: false },
    },
  });
  return { format: 'module', source: code, shortCircuit: true };
}
