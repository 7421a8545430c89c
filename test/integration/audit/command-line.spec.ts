import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { startTestApp, type TestApp } from '../../support/app.js';
import { EVENTS_OF_A_NEW_TENANT, ORIGIN, type Sealing, startSealing } from '../../support/audit.js';
import { orderBody } from '../../support/builders.js';
import { waybill } from '../../support/waybill.js';

interface Run {
  exit: number | null;
  out: string;
  err: string;
}

describe('waybill audit', () => {
  let service: TestApp;
  let sealing: Sealing;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'waybill-cli-'));
    service = await startTestApp();
    sealing = await startSealing(service.database);
    for (let count = 0; count < 3; count += 1) await service.as('operator').post('/v1/orders', orderBody());
    await sealing.seal();
    await writeFile(join(folder, 'old.pem'), sealing.pem, { mode: 0o600 });
  });
  afterAll(async () => {
    await sealing.close();
    await service.close();
    await rm(folder, { recursive: true, force: true });
  });

  const file = (name: string): string => join(folder, name);
  const audit = async (options: string[], env: Record<string, string> = {}): Promise<Run> => {
    const { code, stdout, stderr } = await waybill(['audit', ...options], {
      DATABASE_URL: service.database.appUrl,
      SEALER_DATABASE_URL: service.database.sealerUrl,
      AUDIT_ORIGIN: ORIGIN,
      AUDIT_SIGNING_KEY_FILE: file('old.pem'),
      AUDIT_CHECKPOINT_DIR: sealing.directory.path,
      NODE_OPTIONS: '--disable-warning=ExperimentalWarning',
      ...env,
    });
    return { exit: code, out: stdout, err: stderr };
  };

  it('verifies the database, every tenant, and then only what is new', async () => {
    const all = await audit(['verify']);
    expect(all).toMatchObject({
      exit: 0,
      out: expect.stringContaining(
        `${ORIGIN}/1: intact\n  ${EVENTS_OF_A_NEW_TENANT + 4} events in the log, ${EVENTS_OF_A_NEW_TENANT + 4} streams read`,
      ),
    });
    expect(all.out).toContain(`${ORIGIN}/2: intact`);
    await service.as('operator').post('/v1/orders', orderBody());
    await sealing.seal();
    const more = await audit(['verify', '--tenant', '1', '--incremental']);
    expect(more).toMatchObject({
      exit: 0,
      out: expect.stringContaining(
        `the first ${EVENTS_OF_A_NEW_TENANT + 4} events were verified earlier and not read again`,
      ),
    });
  });

  it('goes the whole way of an auditor: keys, checkpoint, export, verification without a database', async () => {
    const keys = await audit(['keys']);
    const vkey = keys.out.split('  from ')[0] ?? '';
    expect(vkey).toMatch(/^audit\.test\/1\+[0-9a-f]{8}\+/);
    const checkpoint = await audit(['checkpoint', '--tenant', '1']);
    expect(checkpoint.out).toBe(await sealing.directory.read(1));
    await writeFile(file('kept'), checkpoint.out);
    expect((await audit(['export', '--tenant', '1', '--output', file('log.ndjson')])).exit).toBe(0);

    const nowhere = { DATABASE_URL: '', SEALER_DATABASE_URL: '', AUDIT_SIGNING_KEY_FILE: '' };
    const offline = ['verify', '--export', file('log.ndjson'), '--vkey', vkey, '--checkpoint', file('kept')];
    expect(await audit(offline, nowhere)).toMatchObject({
      exit: 0,
      out: expect.stringContaining(`${ORIGIN}/1: intact`),
    });
    await writeFile(
      file('log.ndjson'),
      (await readFile(file('log.ndjson'), 'utf8')).replace('order.created', 'order.deleted'),
    );
    expect(await audit(offline, nowhere)).toMatchObject({
      exit: 1,
      out: expect.stringMatching(
        /tampered, HASH_MISMATCH\n.* \(leaf (\d+), order\/.*, version 1\)\n {2}\1 events of \1 streams were read before it\n$/,
      ),
    });
    expect(await audit(['verify', '--export', file('none'), '--vkey', vkey], nowhere)).toMatchObject({
      exit: 2,
      err: expect.stringContaining('unreadable: ENOENT'),
    });
  });

  it('rotates the key, says what to set, and refuses the old key from then on', async () => {
    const rotated = await audit(['rotate-key', '--new-key', file('new.pem')]);
    expect(rotated).toMatchObject({
      exit: 0,
      out: expect.stringContaining(`AUDIT_SIGNING_KEY_FILE=${file('new.pem')}`),
    });
    expect((await stat(file('new.pem'))).mode & 0o777).toBe(0o600);
    expect((await audit(['rotate-key', '--new-key', file('new.pem')])).out).toContain('has it already');
    expect(await audit(['verify', '--tenant', '1'], { AUDIT_SIGNING_KEY_FILE: file('new.pem') })).toMatchObject({
      exit: 0,
    });
  });

  it('reports tampering in the database with exit code 1', async () => {
    await sealing.tamper(`UPDATE waybill.orders SET metadata = '{"changed": true}' WHERE tenant_id = 1`);
    expect(await audit(['verify', '--tenant', '1'])).toMatchObject({
      exit: 1,
      out: expect.stringContaining('STATE_DRIFT'),
    });
  });
});
