import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { startTestApp, type TestApp } from '../../support/app.js';
import { place } from '../../support/orders.js';

const ROOT = join(import.meta.dirname, '../../..');
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8');

/** Names of series in a PromQL text, as the families that /metrics declares. */
function familiesIn(text: string): string[] {
  const names = text.match(/\b(?:waybill|process|nodejs)_[a-z0-9_]+/g) ?? [];
  return [...new Set(names.map((name) => name.replace(/_(bucket|sum|count)$/, '')))].toSorted();
}

describe('the files for operators', () => {
  let service: TestApp;
  let declared: Set<string>;
  beforeAll(async () => {
    service = await startTestApp();
    await place(service.as('operator'));
    const text = await (await fetch(`${service.baseUrl}/metrics`)).text();
    declared = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name ?? ''));
  });
  afterAll(() => service.close());

  interface Panel {
    type: string;
    title: string;
    targets?: { expr: string }[];
  }
  const { panels } = JSON.parse(read('deploy/grafana/waybill.json')) as { panels: Panel[] };
  const alerts = [...read('deploy/alerts.yaml').matchAll(/- alert: (\S+)\n([\s\S]*?)(?=\n {6}- alert|$)/g)].map(
    ([, name = '', rest = '']) => ({ name, rest }),
  );

  it.each(panels.filter(({ type }) => type !== 'row'))(
    'dashboard panel "$title" asks for metrics that there are',
    ({ targets }) => {
      const families = familiesIn((targets ?? []).map(({ expr }) => expr).join('\n'));
      expect(families.length).toBeGreaterThan(0);
      expect(families.filter((name) => !declared.has(name))).toEqual([]);
    },
  );

  it.each(alerts)('alert $name asks for metrics that there are, and operating.md says what to do', ({ name, rest }) => {
    expect(rest).toMatch(/\bexpr: /);
    expect(rest).toMatch(/severity: (page|ticket)/);
    expect(familiesIn(rest).filter((family) => !declared.has(family))).toEqual([]);
    expect(read('docs/operating.md')).toContain(`\n### ${name}\n`);
  });

  it('say something of alerts that exist only', () => {
    const described = [...read('docs/operating.md').matchAll(/^### (Waybill\w+)$/gm)].map(([, name]) => name);
    expect(described).toEqual(alerts.map(({ name }) => name));
  });

  it('show every metric of the service on the dashboard', () => {
    const shown = familiesIn(JSON.stringify(panels));
    expect([...declared].filter((name) => name.startsWith('waybill_') && !shown.includes(name))).toEqual([]);
  });

  it('name settings that there are', () => {
    const settings = new Set([...read('.env.example').matchAll(/^([A-Z_]+)=/gm)].map(([, name]) => name));
    const compose = [...read('deploy/compose.yaml').matchAll(/^ {6}([A-Z_]+): /gm)].map(([, name]) => name ?? '');
    const ours = compose.filter((name) => !/^(POSTGRES|PG)/.test(name));
    expect(ours.length).toBeGreaterThan(0);
    expect(ours.filter((name) => !settings.has(name))).toEqual([]);
  });

  it('name files that there are', () => {
    for (const [, source] of read('deploy/compose.yaml').matchAll(/'?(\.\.?\/[\w./-]+):\//g)) {
      expect(existsSync(join(ROOT, 'deploy', source ?? ''))).toBe(true);
    }
    for (const [, sources = ''] of read('deploy/Dockerfile').matchAll(/^COPY (?!--from)(.+) \S+$/gm)) {
      for (const source of sources.split(' ')) expect(readdirSync(ROOT)).toContain(source);
    }
  });
});
