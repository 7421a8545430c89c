import { expect, it } from '@jest/globals';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

const CLI = join(import.meta.dirname, '../../../dist/src/cli');
const IMPORTED = /(?:\bfrom|\bimport)\s*\(?\s*['"]([^'"]+)['"]/g;
const FRAMEWORKS = ['@nestjs/common', '@nestjs/core', '@nestjs/swagger', 'fastify', 'typeorm', 'rxjs'];

/** Packages that a built module can ever load, over all that it imports, at its top or later. */
function packagesOf(entry: string): Set<string> {
  const packages = new Set<string>();
  const seen = new Set<string>();
  const visit = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    for (const [, name = ''] of readFileSync(file, 'utf8').matchAll(IMPORTED)) {
      const next = resolve(dirname(file), name);
      if (!name.startsWith('.')) packages.add(name);
      else if (existsSync(next)) visit(next);
    }
  };
  visit(entry);
  return packages;
}

it.each([
  'audit/audit-command',
  'doctor-command',
  'idempotency-command',
  'tenant-command',
  'user-command',
  'key-command',
])('%s loads nothing of the service, also on the embedded database', (command) => {
  const packages = packagesOf(join(CLI, `${command}.js`));
  expect([...packages]).toContain('pg');
  expect(FRAMEWORKS.filter((name) => packages.has(name))).toEqual([]);
});
