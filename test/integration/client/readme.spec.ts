import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { transform } from '@swc/core';
import * as client from '../../../clients/typescript/src/index.js';
import { startTestApp, type TestApp } from '../../support/app.js';

const README = join(import.meta.dirname, '../../../clients/typescript/README.md');

describe('the README of the TypeScript client', () => {
  let service: TestApp;
  beforeAll(async () => {
    service = await startTestApp();
  });
  afterAll(() => service.close());

  it('shows code that runs against the service', async () => {
    const blocks = [...readFileSync(README, 'utf8').matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code = '']) => code);
    expect(blocks).toHaveLength(2);
    const source = blocks
      .join('\n')
      .replace(/import \{.*\n/, '')
      .replace('http://127.0.0.1:3000', service.baseUrl);
    const { code } = await transform(`async function readme() { ${source} }`, {
      jsc: { parser: { syntax: 'typescript' }, target: 'es2022' },
    });
    const printed: unknown[][] = [];
    const shown: unknown[] = [];
    const names = {
      ...client,
      apiKey: service.tenants[0].keys.operator,
      console: { log: (...row: unknown[]) => printed.push(row) },
      show: (allowed: unknown) => shown.push(allowed),
    };
    const run = new Function(...Object.keys(names), `${code}\nreturn readme();`) as (
      ...values: unknown[]
    ) => Promise<void>;
    await run(...Object.values(names));
    expect(printed).toEqual([[expect.any(String), 2598]]);
    expect(shown).toEqual([['canceled', 'shipped']]);
  });
});
