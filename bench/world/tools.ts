import { existsSync } from 'node:fs';
import { join } from 'node:path';

const PATH = (process.env.PATH ?? '').split(':');

/** pgbench isn't in the embedded package; Debian's postgresql brings it, any version drives any server. */
export function findPgbench(): string | null {
  return find('pgbench', [...PATH, ...[18, 17, 16, 15].map((major) => `/usr/lib/postgresql/${major}/bin`)]);
}

/** Debian's wrk. */
export function findWrk(): string | null {
  return find('wrk', PATH);
}

function find(name: string, folders: readonly string[]): string | null {
  return folders.map((folder) => join(folder, name)).find((file) => existsSync(file)) ?? null;
}
