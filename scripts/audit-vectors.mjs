/*
 * Writes docs/audit-vectors.json, and prints the table of values that stands at the end of docs/audit-format.md:
 * `node scripts/audit-vectors.mjs`. It computes them with Node's built-ins alone, apart from the service's own code, so that the
 * two check each other (test/docs/audit-vectors.spec.ts).
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { vectors } from './audit-vectors/cases.mjs';
import { valuesTable } from './audit-vectors/values.mjs';

const { base, cases } = vectors();
const list = (items) => items.map((item) => `    ${JSON.stringify(item)}`).join(',\n');
writeFileSync(
  join(import.meta.dirname, '../docs/audit-vectors.json'),
  `{\n  "base": [\n${list(base)}\n  ],\n  "cases": [\n${list(cases)}\n  ]\n}\n`,
);
console.log(valuesTable());
