import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startTestApp, type TestApp } from '../support/app.js';

const COMMAND = join(import.meta.dirname, '../e2e/run.mjs');

interface Result {
  code: number | null;
  output: string;
}

describe('npm run test:e2e', () => {
  let service: TestApp;
  let reports: string;
  beforeAll(async () => {
    service = await startTestApp();
    reports = await mkdtemp(join(tmpdir(), 'waybill-e2e-'));
  });
  afterAll(async () => {
    await service.close();
    await rm(reports, { recursive: true, force: true });
  });

  const run = (folder: string, key: string, ...options: string[]): Promise<Result> =>
    new Promise((resolve) => {
      const given = ['--base-url', service.baseUrl, '--api-key', key, '--reports', join(reports, folder), ...options];
      // Of what Jest tells its own workers nothing must reach the Jest that is tested.
      const { JEST_WORKER_ID: _worker, ...env } = process.env;
      const child = execFile(process.execPath, [COMMAND, ...given], { env }, (_error, stdout, stderr) =>
        resolve({ code: child.exitCode, output: stdout + stderr }),
      );
    });
  const operator = () => service.tenants[0].keys.operator ?? '';

  it('passes twice at once on one database, and reports in XML and in sentences', async () => {
    const [first, second] = await Promise.all([run('one', operator()), run('two', operator())]);
    expect([first, second]).toEqual([
      { code: 0, output: expect.stringContaining('✓ by a double click places one order') },
      { code: 0, output: expect.any(String) },
    ]);
    const xml = await readFile(join(reports, 'one', 'e2e.xml'), 'utf8');
    expect(xml).toMatch(/<testsuites name="[^"]+" tests="\d\d" failures="0" errors="0"/);
    const report = await readFile(join(reports, 'one', 'e2e.md'), 'utf8');
    expect(report).toContain('- ✓ has one winner when twenty want the same step at once');
  });

  it('leaves no order behind that could be canceled', async () => {
    const left = await service.as('viewer').get<{ data: unknown[] }>('/v1/orders?channel=e2e&status=pending,confirmed');
    expect(left.body.data).toEqual([]);
  });

  it('fails, and says where, when the service does not do what it should', async () => {
    const { code, output } = await run('viewer', service.tenants[0].keys.viewer ?? '', 'placing');
    expect(code).toBe(1);
    expect(output).toContain('role-required');
  });

  it('runs the case that docs/testing.md shows', async () => {
    const text = await readFile(join(import.meta.dirname, '../../docs/testing.md'), 'utf8');
    const [, shown = ''] = /```ts\n([\s\S]*?)```/.exec(text) ?? [];
    const file = join(import.meta.dirname, '../e2e/shown-in-documentation.spec.ts');
    await writeFile(file, shown);
    try {
      const { code, output } = await run('shown', operator(), 'shown-in-documentation');
      expect([code, output]).toEqual([0, expect.stringContaining('✓ is free of charge and can be confirmed')]);
    } finally {
      await rm(file);
    }
  });

  it('says in one sentence that a key is wrong', async () => {
    const { code, output } = await run('wrong', 'wrong');
    expect([code, output]).toEqual([1, expect.stringContaining('answers 401 to GET /v1/orders')]);
  });
});
