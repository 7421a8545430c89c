import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';

const SOURCES = join(import.meta.dirname, '../../../migrations/sql');

/** The SQL of an area, without its comments. */
function sourceOf(area: string): string {
  const files = readdirSync(join(SOURCES, area)).toSorted();
  const text = files.map((file) => readFileSync(join(SOURCES, area, file), 'utf8')).join('\n');
  return text.replaceAll(/--[^\n]*/g, '').replaceAll(/^COMMENT ON [^;]*;/gm, '');
}

function tablesOf(area: string): string[] {
  return [...sourceOf(area).matchAll(/^CREATE TABLE (\w+\.\w+)/gm)].map(([, name = '']) => name);
}

/** Tables of other areas that an area's SQL names. */
function strangersIn(source: string, own: string): string[] {
  const others = readdirSync(SOURCES).filter((area) => area !== own);
  return others.flatMap(tablesOf).filter((table) => new RegExp(`\\b${table.replace('.', '\\.')}\\b`).test(source));
}

describe('what serves every machine', () => {
  it.each(['context', 'workflow', 'audit'])('names no table of another area: %s', (area) => {
    expect(strangersIn(sourceOf(area), area)).toEqual([]);
  });

  it('a name would be seen', () => {
    expect(strangersIn('SELECT FROM waybill.orders o', 'workflow')).toEqual(['waybill.orders']);
    expect(tablesOf('orders')).toEqual(['waybill.orders', 'waybill.order_lines', 'waybill.order_contacts']);
  });
});
