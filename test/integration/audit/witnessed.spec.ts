import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { parseCheckpoint } from '../../../src/audit/format/checkpoint.js';
import { parseNote, verifierKeyText } from '../../../src/audit/format/signed-note.js';
import { generateSigningKey } from '../../../src/audit/format/signing-key.js';
import { CheckpointDirectory } from '../../../src/audit/log/checkpoint-directory.js';
import { SealerMetrics } from '../../../src/audit/log/sealer-metrics.js';
import { cosignaturesOn, witnessKeyText } from '../../../src/audit/witness/cosignature.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { EVENTS_OF_A_NEW_TENANT, sealerSettings, verifierKeyOf } from '../../support/audit.js';
import { orderBody } from '../../support/builders.js';
import { eventually } from '../../support/waiting.js';
import { waybill } from '../../support/waybill.js';
import { type RunningWitness, startWitness } from '../../support/witness.js';

describe('a service with three witnesses', () => {
  const pem = generateSigningKey();
  const key = verifierKeyOf(pem);
  const vkey = verifierKeyText(key.name, key.rawPublicKey);
  let witnesses: [RunningWitness, RunningWitness, RunningWitness];
  let service: TestApp;
  let settings: Awaited<ReturnType<typeof sealerSettings>>;
  beforeAll(async () => {
    const keys = [key, verifierKeyOf(pem, 2)];
    witnesses = [await startWitness('w1', keys), await startWitness('w2', keys), await startWitness('w3', keys)];
    const list = witnesses.map(({ key: known, url }) => `${witnessKeyText(known.name, known.rawPublicKey)} ${url}`);
    settings = { ...(await sealerSettings(pem)), AUDIT_WITNESSES: list.join(', '), AUDIT_WITNESS_TIMEOUT: '2s' };
    service = await startTestApp({ env: settings });
  });
  afterEach(() => {
    for (const witness of witnesses) witness.instead = null;
  });
  afterAll(async () => {
    await service.close();
    await Promise.all(witnesses.map((witness) => witness.close()));
  });

  const place = () => service.as('operator').post('/v1/orders', orderBody());
  const published = async () => {
    const { status, text } = await service.as('viewer').get('/v1/audit/checkpoints/latest');
    if (status !== 200) return { size: 0, note: '', cosigned: [] };
    const cosignatures = cosignaturesOn(
      text,
      witnesses.map((witness) => witness.key),
    );
    const { size } = parseCheckpoint(parseNote(text).text);
    return { size, note: text, cosigned: cosignatures.map(({ witness }) => witness.name) };
  };
  const sealed = async (): Promise<number> => {
    const { body } = await service.as('viewer').get<{ next: number | null }>('/v1/audit/events?limit=500');
    return (body.next ?? -1) + 1;
  };
  /** Waits for an order's event to be sealed. @returns how many there are */
  const placeAndSeal = async (): Promise<number> => {
    const before = await sealed();
    await place();
    return eventually(async () => (await sealed()) > before && sealed());
  };
  const whenPublished = (size: number) =>
    eventually(async () => {
      const found = await published();
      return found.size >= size && found;
    });
  const held = () => service.app.get(SealerMetrics).figures().held;
  const answer = (status: number, body: string) => (_: unknown, response: ServerResponse) =>
    void response.writeHead(status).end(body);

  it('publishes what they have cosigned, over HTTP and in its folder', async () => {
    const { cosigned, note } = await whenPublished(await placeAndSeal());
    expect(cosigned).toEqual(['w1', 'w2', 'w3']);
    expect(await new CheckpointDirectory(settings.AUDIT_CHECKPOINT_DIR).read(1)).toBe(note);
  });

  it.each<[string, (witness: RunningWitness) => void]>([
    ['is away', (witness) => (witness.instead = answer(503, ''))],
    ['refuses', (witness) => (witness.instead = answer(403, 'no\n'))],
    ['answers with a signature of something else', (witness) => (witness.instead = answer(200, '— w1 AAAAAAAA\n'))],
  ])('publishes with the other two when one %s', async (_what, misbehave) => {
    misbehave(witnesses[0]);
    const { cosigned } = await whenPublished(await placeAndSeal());
    expect(cosigned).toEqual(['w2', 'w3']);
    expect(held()).toBe(0);
  });

  it('goes on sealing without the quorum, publishes nothing, says so, and makes up for it', async () => {
    const before = await whenPublished(await sealed());
    for (const witness of witnesses.slice(1)) witness.instead = answer(403, 'no\n');
    const size = await placeAndSeal();
    await eventually(() => held() === 1);
    // Orders are taken and sealed; what others see is the checkpoint of before.
    expect(await placeAndSeal()).toBeGreaterThan(size);
    expect((await published()).note).toBe(before.note);
    const receipt = await service.as('viewer').get(`/v1/audit/receipt?index=${size - 1}`);
    expect(receipt.status).toBe(404);
    expect((await service.as('viewer').get('/health/ready')).status).toBe(200);
    const { text } = await service.as('viewer').get('/metrics');
    expect(text).toContain('waybill_sealer_held_tenants 1');
    expect(text).toMatch(/waybill_witness_answers_total\{witness="w2",answer="refused"\} [1-9]/);

    for (const witness of witnesses) witness.instead = null;
    const { cosigned } = await whenPublished(size + 1);
    expect(cosigned.length).toBeGreaterThanOrEqual(2);
    await eventually(() => held() === 0);
  });

  it('hands out exports and receipts that whoever knows the witnesses verifies, and nobody who asks for more', async () => {
    await whenPublished(await sealed());
    const folder = await mkdtemp(join(tmpdir(), 'waybill-witnessed-'));
    const [exported, receipt] = [join(folder, 'log.ndjson'), join(folder, 'event.tlog-proof')];
    await writeFile(exported, (await service.as('auditor').get('/v1/audit/export')).text);
    await writeFile(receipt, (await service.as('auditor').get('/v1/audit/receipt?index=1')).text);
    const known = witnesses.flatMap(({ key: { name, rawPublicKey } }) => [
      '--witness',
      witnessKeyText(name, rawPublicKey),
    ]);
    const stranger = verifierKeyOf(generateSigningKey());
    const strange = ['--witness', witnessKeyText('w4', stranger.rawPublicKey)];
    const verify = async (...rest: string[]) => {
      const { code, stdout, stderr } = await waybill(['audit', 'verify', ...rest], {
        DATABASE_URL: service.database.appUrl,
        SEALER_DATABASE_URL: service.database.sealerUrl,
        AUDIT_SIGNING_KEY: pem,
        AUDIT_ORIGIN: settings.AUDIT_ORIGIN ?? '',
        AUDIT_CHECKPOINT_DIR: settings.AUDIT_CHECKPOINT_DIR,
      });
      return { code, said: stdout + stderr };
    };
    for (const what of [
      ['--export', exported, '--vkey', vkey],
      ['--receipt', receipt, '--vkey', vkey],
      ['--tenant', '1'],
    ]) {
      expect(await verify(...what, ...known, '--quorum', '2')).toMatchObject({ code: 0 });
      expect(await verify(...what, ...known, ...strange)).toMatchObject({
        code: 2,
        said: expect.stringContaining('NOT_WITNESSED'),
      });
    }
    expect(await verify('--export', exported, '--vkey', vkey, ...known, '--quorum', '4')).toMatchObject({
      code: 2,
      said: expect.stringContaining('--quorum must be a number from 1 to'),
    });
    await rm(folder, { recursive: true });
  });
});

describe('a witness that has seen more of a log than it has', () => {
  it('betrays a database that was restored together with its folder', async () => {
    const pem = generateSigningKey();
    const witness = await startWitness('w1', [verifierKeyOf(pem)]);
    const list = `${witnessKeyText('w1', witness.key.rawPublicKey)} ${witness.url}`;
    const env = async () => ({ ...(await sealerSettings(pem)), AUDIT_WITNESSES: list });
    const first = await startTestApp({ env: await env() });
    for (let count = 0; count < 3; count += 1) await first.as('operator').post('/v1/orders', orderBody());
    await eventually(
      async () =>
        (await first.as('auditor').get(`/v1/audit/receipt?index=${EVENTS_OF_A_NEW_TENANT + 3}`)).status === 200,
    );
    await first.close();

    // The same keys and names, an empty folder, and a database that knows nothing of it.
    const second = await startTestApp({ env: await env() });
    await second.as('operator').post('/v1/orders', orderBody());
    const metrics = second.app.get(SealerMetrics);
    await eventually(() => (metrics.witnesses?.figures()[0]?.troubles.ahead ?? 0) > 0);
    // With the other tenant's log, which the witness doesn't know.
    await eventually(() => metrics.figures().held === 2);
    expect((await second.as('viewer').get('/v1/audit/checkpoints/latest')).status).toBe(404);
    await second.close();
    await witness.close();
  });
});
