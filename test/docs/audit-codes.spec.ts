import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { FAULT_CODES } from '../../src/audit/verify/fault.js';

it('docs/audit.md says of every code of a verification what it means, and of no other', () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/audit.md'), 'utf8');
  const described = [...page.matchAll(/^\| ([A-Z_]+) +\|/gm)].map(([, code]) => code);
  expect(described.toSorted()).toEqual([...FAULT_CODES, 'MALFORMED', 'UNKNOWN_FORMAT'].toSorted());
});
