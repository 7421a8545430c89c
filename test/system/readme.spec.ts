import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { execFile, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { ApiClient } from '../support/api-client.js';
import { startService, type StartedService } from '../support/started-service.js';

const ROOT = join(import.meta.dirname, '../..');
const README = readFileSync(join(ROOT, 'README.md'), 'utf8');
const SCRIPTS = (JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: Record<string, string> })
  .scripts;
const blocks = [...README.matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(([, block = '']) => block);
const STORY = [join(ROOT, 'dist/demo/main.js')];
const run = promisify(execFile);

describe('the README', () => {
  let service: StartedService;
  let env: NodeJS.ProcessEnv;
  beforeAll(async () => {
    service = await startService();
    env = { ...process.env, WAYBILL_DATA_DIR: service.dataDir, NO_COLOR: '1' };
  });
  afterAll(() => service?.stop());

  it('takes two minutes to read', () => {
    const words = README.replaceAll(/^```[\s\S]*?^```/gm, '').split(/\s+/);
    expect(words.length).toBeLessThan(500);
  });

  it('refers only to what is there', () => {
    const links = [...README.matchAll(/\]\(([^)#]+)\)/g)].map(([, link = '']) => link);
    expect(links.filter((link) => !existsSync(join(ROOT, link)))).toEqual([]);
  });

  it('names only commands that there are; each installs what it needs', () => {
    const names = [...README.matchAll(/npm (?:run )?([a-z]+:[a-z0-9]+|start|test|demo|check)/g)].map(
      ([, name = '']) => name,
    );
    expect(new Set(names)).toEqual(new Set(['start', 'test', 'demo', 'test:e2e', 'check']));
    for (const name of names) expect(SCRIPTS[`pre${name}`]).toMatch(/^node scripts\/prepare\.mjs/);
  });

  it('places and confirms a first order by its own lines', async () => {
    const block = blocks.find((one) => one.includes('curl'));
    const script = (block ?? '')
      .replaceAll('http://127.0.0.1:3000', service.baseUrl)
      .replaceAll('.waybill/demo.json', join(service.dataDir, 'demo.json'));
    const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], { cwd: ROOT });
    expect(JSON.parse(stdout)).toMatchObject({ status: 'confirmed', version: 2, total: 3582 });
  });

  it('has a service that prints a first order as a command which works', async () => {
    const [, command = ''] = /^A first order:\n(curl [\s\S]+?)\n\n/m.exec(service.output()) ?? [];
    const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', command], { cwd: ROOT });
    expect(JSON.parse(stdout)).toMatchObject({ status: 'pending', total: 3582 });
  });

  it('draws the machine that is in force', async () => {
    const { body } = await new ApiClient(service.baseUrl, service.keys.viewer).get<{
      transitions: { from: string; to: string; requiresReason: boolean }[];
    }>('/v1/workflows/order');
    const drawn = [...README.matchAll(/^ {2}(\w+) --> (\w+)(: with a reason)?$/gm)];
    expect(drawn.map(([, from, to, reason]) => `${from} ${to} ${reason !== undefined}`).toSorted()).toEqual(
      body.transitions.map(({ from, to, requiresReason }) => `${from} ${to} ${requiresReason}`).toSorted(),
    );
  });

  const waybill = (...words: string[]) =>
    run(process.execPath, [join(ROOT, 'dist/src/cli/main.js'), ...words], { cwd: ROOT, env }).catch(
      ({ code, stdout }: { code: number; stdout: string }) => ({ code, stdout }),
    );

  it('promises a story that npm run demo tells to its end', async () => {
    const { stdout } = await run(process.execPath, STORY, { cwd: ROOT, env });
    expect(stdout).toContain('There is one order.');
    expect(stdout).toContain('nineteen are told that it is confirmed already');
    expect(stdout).toMatch(/Nobody guesses: 503 unavailable: .* Send the same request with the same key again\./);
    expect(stdout).toContain("Held once, taken once: 3582 cents, and the provider's books agree.");
    expect(stdout.match(/PostgreSQL refuses/g)).toHaveLength(3);
    expect(stdout).toContain('pending → confirmed → shipped → delivered');
    expect(stdout).toContain('✓ waybill.localhost/1: intact');
    const [, orderId] = /The order is \S+\/v1\/orders\/([0-9a-f-]{36});/.exec(stdout) ?? [];
    const { body } = await new ApiClient(service.baseUrl, service.keys.viewer).get<{ data: { logIndex: number }[] }>(
      `/v1/orders/${orderId}/events`,
    );
    expect(stdout).toContain(`Found, to the event: waybill.localhost/1: tampered, HASH_MISMATCH
     the event is not the one that was hashed (leaf ${body.data[0]?.logIndex}, order/${orderId}, version 1)`);
    const [, shown = ''] = /npm run waybill -- (.+)/.exec(stdout) ?? [];
    expect(await waybill(...shown.split(' '))).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('tampered, HASH_MISMATCH'),
    });
  });

  it('tells it without lasting harm to the history, even when it is killed while it tampers', async () => {
    const story = spawn(process.execPath, STORY, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'inherit'] });
    let told = '';
    for await (const chunk of story.stdout) {
      told += String(chunk);
      if (told.includes('switches the triggers off')) story.kill('SIGKILL');
    }
    expect(told).not.toContain('Found, to the event');
    const { stdout } = await waybill('audit', 'verify', '--tenant', '1');
    expect(stdout).toContain('waybill.localhost/1: intact');
    const { database } = JSON.parse(readFileSync(join(service.dataDir, 'demo.json'), 'utf8')) as {
      database: { superuserUrl: string };
    };
    const client = new Client({ connectionString: database.superuserUrl });
    await client.connect();
    await expect(client.query('UPDATE audit.events SET body = body')).rejects.toThrow('it is append-only');
    await client.end();
  });

  it('promises a suite that npm run test:e2e runs on what npm start serves', async () => {
    const command = [join(ROOT, 'test/e2e/run.mjs'), 'placing', '--reports', join(service.dataDir, 'reports')];
    const { JEST_WORKER_ID: _worker, ...rest } = env;
    const { stderr } = await run(process.execPath, command, { cwd: ROOT, env: rest });
    expect(stderr).toContain('✓ takes an external reference once');
  });
});
