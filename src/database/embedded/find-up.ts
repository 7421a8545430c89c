import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * The nearest `relativePath` in the folder of the module at `moduleUrl` or in one above it. The sources and the build
 * in `dist` lie at different depths of the project, so a fixed number of `..` would be right for one of them only.
 */
export function findUp(moduleUrl: string, relativePath: string): string | undefined {
  let folder = dirname(fileURLToPath(moduleUrl));
  for (;;) {
    const candidate = join(folder, relativePath);
    if (existsSync(candidate)) return candidate;
    const parent = dirname(folder);
    if (parent === folder) return undefined;
    folder = parent;
  }
}
