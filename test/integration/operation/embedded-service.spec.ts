import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { existsSync } from 'node:fs';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { discardEmbedded } from '../../../src/database/embedded/index.js';
import { ApiClient } from '../../support/api-client.js';
import { makeOwnFolder, removeLeftovers } from '../../support/own-folder.js';
import { place } from '../../support/orders.js';
import { type RealService, startRealService } from '../../support/real-service.js';
import { eventually } from '../../support/waiting.js';
import { waybill } from '../../support/waybill.js';

const KIND = 'waybill-embedded-service';

describe('a service on its embedded database', () => {
  let dataDir: string;
  let service: RealService;
  beforeAll(async () => {
    await removeLeftovers(KIND);
    dataDir = await makeOwnFolder(KIND);
  });
  afterAll(async () => {
    await service.kill();
    await discardEmbedded(join(dataDir, 'pg'), () => undefined);
    await rm(dataDir, { recursive: true, force: true });
  });

  const inFolder = (name: string): string => join(dataDir, name);
  const start = (): void => {
    service = startRealService({ env: { WAYBILL_DATA_DIR: dataDir, AUDIT_SEAL_INTERVAL: '50ms' } });
  };
  const postmaster = async (): Promise<number> =>
    Number((await readFile(inFolder('pg/cluster/data/postmaster.pid'), 'utf8')).split('\n')[0]);
  const client = async (): Promise<ApiClient> => {
    const baseUrl = await service.baseUrl();
    const { tenants } = JSON.parse(await eventually(() => readFile(inFolder('demo.json'), 'utf8'))) as {
      tenants: { keys: Record<string, string> }[];
    };
    return new ApiClient(baseUrl, tenants[0]?.keys.operator);
  };
  const stop = async (): Promise<void> => {
    await service.kill('SIGTERM');
  };

  it('starts PostgreSQL again when that is killed, says so, and loses nothing', async () => {
    start();
    const operator = await client();
    const order = await place(operator);
    process.kill(await postmaster(), 'SIGKILL');
    await service.entry(({ msg }) => msg.startsWith('PostgreSQL has ended, and nobody stopped it'));
    await service.entry(({ msg }) => msg.startsWith('PostgreSQL is back'));
    await eventually(async () => (await operator.get('/health/ready')).status === 200);
    expect((await operator.get(`/v1/orders/${order.id}`)).status).toBe(200);
    await place(operator);
    await eventually(() => existsSync(inFolder('checkpoints/1/1/latest')));
    await stop();
    expect(service.child.exitCode).toBe(0);
  });

  it.each([
    ['demo.json', /demo\.json is damaged: it holds no demo keys\. Move it away/],
    [
      'pg/cluster/secrets.json',
      /secrets\.json, the passwords .* can't be used: it is no JSON\. Put it back from a copy/,
    ],
    ['audit-signing-key.pem', /audit-signing-key\.pem can't be used: .*Put it back from a copy/],
  ])('names a damaged %s, and leaves nothing that listens', async (name, told) => {
    const whole = await readFile(inFolder(name), 'utf8');
    for (const damaged of [whole.slice(0, whole.length / 2), '']) {
      await writeFile(inFolder(name), damaged);
      start();
      expect(await service.ended).toBe(1);
      expect(service.errors()).toMatch(told);
      expect(service.errors()).not.toMatch(/ {4}at |wb_\d|[0-9a-f]{48}/);
      expect(service.log.filter(({ baseUrl }) => baseUrl !== undefined)).toEqual([]);
      expect(existsSync(inFolder('pg/cluster/data/postmaster.pid'))).toBe(false);
    }
    await writeFile(inFolder(name), whole);
  });

  it('says what follows when the folder of published checkpoints is lost', async () => {
    await rename(inFolder('checkpoints'), inFolder('elsewhere'));
    start();
    await service.entry(({ msg }) => /has none of tenants 1, .*Put them back from a copy/s.test(msg));
    await stop();
    await rm(inFolder('checkpoints'), { recursive: true, force: true });
    await rename(inFolder('elsewhere'), inFolder('checkpoints'));
  });

  it('says what follows when the signing key is lost, makes no other, and takes orders', async () => {
    await rename(inFolder('audit-signing-key.pem'), inFolder('kept.pem'));
    start();
    await service.entry(({ msg }) =>
      /signing key .* is gone.*their events wait unsealed.*Put the file back/s.test(msg),
    );
    await place(await client());
    await stop();
    const doctor = await waybill(['doctor'], { WAYBILL_DATA_DIR: dataDir });
    expect(doctor.stdout).toMatch(/FAULT {2}signing key +The signing key .* is gone/);
    expect(doctor.code).toBe(1);
    await waybill(['audit', 'verify'], { WAYBILL_DATA_DIR: dataDir });
    expect(existsSync(inFolder('audit-signing-key.pem'))).toBe(false);
    await rename(inFolder('kept.pem'), inFolder('audit-signing-key.pem'));
    expect((await waybill(['doctor'], { WAYBILL_DATA_DIR: dataDir })).stdout).not.toContain('is gone');
  });
});
