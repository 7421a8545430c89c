import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client } from 'pg';
import { eventHash, genesisHash } from '../../../src/audit/format/event-hash.js';
import { openNote } from '../../../src/audit/format/signed-note.js';
import { CheckpointDirectory } from '../../../src/audit/log/checkpoint-directory.js';
import { publishCheckpoint } from '../../../src/audit/log/publish-checkpoint.js';
import { sealBatch, type SealStep } from '../../../src/audit/log/seal-batch.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { EVENTS_OF_A_NEW_TENANT, ORIGIN, type Sealing, startSealing } from '../../support/audit.js';
import { type Order, orderBody } from '../../support/builders.js';

describe('sealing', () => {
  let service: TestApp;
  let sealing: Sealing;
  beforeAll(async () => {
    service = await startTestApp();
    sealing = await startSealing(service.database);
  });
  afterAll(async () => {
    await sealing.close();
    await service.close();
  });

  const place = async (changes: Record<string, unknown> = {}): Promise<Order> =>
    (await service.as('operator').post<Order>('/v1/orders', orderBody(changes))).body;
  const placeMany = async (count: number): Promise<void> => {
    for (let placed = 0; placed < count; placed += 1) await place();
  };
  const count = async (table: string): Promise<number> => {
    const [row] = await sealing.sql<{ count: string }>(`SELECT count(*) FROM ${table} WHERE tenant_id = 1`);
    return Number(row?.count);
  };
  const expectEverythingSealed = async (): Promise<void> => {
    const events = await count('audit.events');
    expect(await count('audit.leaves')).toBe(events);
    expect(await count('audit.queue')).toBe(0);
    expect(await sealing.verify()).toMatchObject({ verdict: 'intact', fault: null, size: events, unsealed: 0 });
  };

  it('puts every event of a tenant into its log, signs a checkpoint and publishes it', async () => {
    const operator = service.as('operator');
    for (let placed = 0; placed < 20; placed += 1) {
      const { id } = await place();
      await operator.post(`/v1/orders/${id}/transitions`, { to: 'confirmed' });
    }
    expect(await sealing.seal(1, 7)).toBe(EVENTS_OF_A_NEW_TENANT + 40);
    const note = await sealing.directory.read(1);
    expect(openNote(note ?? '', sealing.trusted).text).toContain(`audit.test/1\n${EVENTS_OF_A_NEW_TENANT + 41}\n`);
    expect(await sealing.verify()).toMatchObject({
      verdict: 'intact',
      fault: null,
      size: EVENTS_OF_A_NEW_TENANT + 41,
      streams: EVENTS_OF_A_NEW_TENANT + 21,
      unsealed: 0,
    });
  });

  it('seals tenants apart from each other, and begins a log once, also when what began it was killed', async () => {
    await service.asOther('operator').post('/v1/orders', orderBody());
    expect(await runSealer({ tenantId: 2, killAt: 'started' })).toBe('SIGKILL');
    expect(await sealing.seal(2)).toBe(EVENTS_OF_A_NEW_TENANT + 1);
    expect(openNote((await sealing.directory.read(2)) ?? '', sealing.trusted).text).toContain(
      `audit.test/2\n${EVENTS_OF_A_NEW_TENANT + 2}\n`,
    );
    expect(await sealing.verify({ tenantId: 2 })).toMatchObject({
      verdict: 'intact',
      size: EVENTS_OF_A_NEW_TENANT + 2,
    });
  });

  it.each<SealStep>(['locked', 'signed', 'appended', 'checkpointed', 'committed', 'publishing', 'published'])(
    'loses, doubles and forks nothing when it is killed after the step "%s"',
    async (killAt) => {
      await placeMany(12);
      expect(await runSealer({ killAt })).toBe('SIGKILL');
      // Whatever the crash left is what verification accepts, and the next process goes on from there.
      expect(await sealing.verify()).toMatchObject({ fault: null });
      expect(await runSealer({ rounds: 4 })).toBe(0);
      await expectEverythingSealed();
    },
  );

  it('publishes at the next start what a crash kept from being published', async () => {
    await placeMany(2);
    expect(await runSealer({ killAt: 'committed' })).toBe('SIGKILL');
    const stale = await sealing.directory.read(1);
    await publishCheckpoint(sealing.tools, 1);
    const fresh = await sealing.directory.read(1);
    expect(fresh).not.toBe(stale);
    expect(openNote(fresh ?? '', sealing.trusted).text).toContain(`\n${await count('audit.leaves')}\n`);
  });

  it('takes turns with another sealer of the same tenant', async () => {
    await placeMany(60);
    const exits = await Promise.all([1, 2, 3].map(() => runSealer({ rounds: 40, batchSize: 2 })));
    expect(exits).toEqual([0, 0, 0]);
    await sealing.seal();
    await expectEverythingSealed();
  });

  it('leaves a log alone that another process holds', async () => {
    await place();
    let isHeld: (value: number | null) => void = () => undefined;
    const second = new Promise<number | null>((resolve) => (isHeld = resolve));
    const first = await sealBatch(
      {
        ...sealing.tools,
        onStep: async (step) => (step === 'locked' ? isHeld(await sealBatch(sealing.tools, 1)) : undefined),
      },
      1,
    );
    expect(first).toBe(1);
    expect(await second).toBeNull();
    await expectEverythingSealed();
  });

  it('fault 31: an event that commits late is sealed all the same, though later ones were sealed before it', async () => {
    const early = await openTransaction();
    const [user] = await sealing.sql<{ id: string }>(
      `SELECT id FROM waybill.users WHERE subject = 'demo-operator' AND tenant_id = 1`,
    );
    await early.query(`SELECT waybill.set_context(1, $1, '{operator}', 'early')`, [user?.id]);
    const order = await place();
    await sealing.seal();
    await early.query(`UPDATE waybill.orders SET status = 'confirmed' WHERE tenant_id = 1 AND id = $1`, [order.id]);
    await placeMany(3);
    expect(await sealing.seal()).toBe(3);
    await early.query('COMMIT');
    await early.end();
    expect(await sealing.seal()).toBe(1);
    await expectEverythingSealed();
  });

  it('fault 25: sixteen processes append to one stream, and it neither forks nor has a gap', async () => {
    const order = await place();
    const [user] = await sealing.sql<{ id: string }>(
      `SELECT id FROM waybill.users WHERE subject = 'demo-operator' AND tenant_id = 1`,
    );
    const append = async (): Promise<void> => {
      const client = await openTransaction();
      await client.query('ROLLBACK');
      for (let round = 0; round < 10; round += 1) {
        await client.query('BEGIN');
        await client.query(`SELECT waybill.set_context(1, $1, '{operator}', 'many')`, [user?.id]);
        await client.query(
          `UPDATE waybill.orders SET metadata = jsonb_build_object('n', gen_random_uuid()) WHERE tenant_id = 1 AND id = $1`,
          [order.id],
        );
        await client.query('COMMIT');
      }
      await client.end();
    };
    await Promise.all([...Array.from({ length: 16 }, append), runSealer({ rounds: 30 })]);
    await sealing.seal();
    const versions = await sealing.sql<{ version: string }>(
      `SELECT version FROM audit.leaves WHERE tenant_id = 1 AND stream = $1 ORDER BY leaf_index`,
      [`order/${order.id}`],
    );
    expect(versions.map(({ version }) => Number(version))).toEqual(Array.from({ length: 161 }, (_, at) => at + 1));
    await expectEverythingSealed();
  });

  it('fault 26: verifies an odd microsecond, nested and reordered members, text beyond ASCII and big integers', async () => {
    const metadata = {
      z: { b: [1, { ü: '日本語 \u{1F6D2} "quoted" \\ \u2028' }], a: null },
      a: 9_007_199_254_740_991,
      1: -0.5,
      price: '123456789012345678901234567890',
    };
    const { id } = await place({ metadata });
    const [event] = await sealing.sql<Record<string, string> & { prev_hash: Buffer; event_hash: Buffer }>(
      `SELECT * FROM audit.events WHERE stream = $1`,
      [`order/${id}`],
    );
    const genesis = genesisHash(1, `order/${id}`);
    expect(event?.prev_hash).toEqual(genesis);
    // The same bytes as the database hashed, from the columns alone.
    const hash = eventHash({
      tenantId: 1,
      eventId: event!.event_id!,
      stream: event!.stream!,
      version: Number(event!.version),
      occurredUs: Number(event!.occurred_us),
      type: event!.type!,
      actor: event!.actor!,
      body: event!.body!,
      prevHash: genesis,
      format: 1,
    });
    expect(hash).toEqual(event?.event_hash);
    expect(JSON.parse(event?.body ?? '')).toMatchObject({ snapshot: { metadata } });
    await sealing.seal();
    await expectEverythingSealed();
  });

  it('fault 29: a raw UPDATE in psql leaves history and event behind, sealed like any other', async () => {
    const { id } = await place();
    const psql = await openTransaction();
    await expect(
      psql.query(`UPDATE waybill.orders SET status = 'confirmed' WHERE id = $1`, [id]),
    ).rejects.toMatchObject({
      code: 'WB001',
    });
    await psql.query('ROLLBACK');
    await psql.query('BEGIN');
    const [user] = await sealing.sql<{ id: string }>(
      `SELECT id FROM waybill.users WHERE subject = 'demo-admin' AND tenant_id = 1`,
    );
    await psql.query(`SELECT waybill.set_context(1, $1, '{admin}', 'psql')`, [user?.id]);
    await psql.query(`UPDATE waybill.orders SET status = 'confirmed' WHERE tenant_id = 1 AND id = $1`, [id]);
    await psql.query('COMMIT');
    await psql.end();
    const history = await service
      .as('viewer')
      .get<{ data: { to: string; requestId: string }[] }>(`/v1/orders/${id}/history`);
    expect(history.body.data.at(-1)).toMatchObject({ to: 'confirmed', requestId: 'psql' });
    const events = await service.as('viewer').get<{ data: { type: string }[] }>(`/v1/orders/${id}/events`);
    expect(events.body.data.map(({ type }) => type)).toEqual(['order.created', 'order.confirmed']);
    await sealing.seal();
    await expectEverythingSealed();
  });

  it('refuses an event that changed between append and sealing, and seals nothing of the batch', async () => {
    const { id } = await place();
    await sealing.tamper(`UPDATE audit.events SET actor = gen_random_uuid() WHERE stream = 'order/${id}'`);
    const before = await count('audit.leaves');
    await expect(sealing.seal()).rejects.toThrow('the hash is not that of the event');
    expect(await count('audit.leaves')).toBe(before);
  });

  it('refuses to publish into a directory that belongs to another log', async () => {
    const other = await startSealing(service.database, sealing.pem);
    await other.directory.publish(1, (await sealing.directory.last(2))!);
    await expect(
      publishCheckpoint({ ...sealing.tools, directory: new CheckpointDirectory(other.directory.path) }, 1),
    ).rejects.toThrow('is of the log audit.test/2');
    await other.close();
  });

  async function openTransaction(): Promise<Client> {
    const client = new Client({ connectionString: service.database.appUrl });
    await client.connect();
    await client.query('BEGIN');
    return client;
  }

  /** @returns exit code, or the signal that ended it */
  function runSealer(options: {
    killAt?: SealStep;
    rounds?: number;
    batchSize?: number;
    tenantId?: number;
  }): Promise<number | string | null> {
    const settings = {
      sealerUrl: service.database.sealerUrl,
      pem: sealing.pem,
      directory: sealing.directory.path,
      origin: ORIGIN,
      tenantId: 1,
      ...options,
    };
    const script = fileURLToPath(new URL('../../support/sealer-process.mjs', import.meta.url));
    return new Promise((resolve, reject) => {
      const child = spawn(
        process.execPath,
        ['--disable-warning=ExperimentalWarning', script, JSON.stringify(settings)],
        {
          stdio: ['ignore', 'ignore', 'inherit'],
        },
      );
      child.once('error', reject);
      child.once('exit', (code, signal) => resolve(signal ?? code));
    });
  }
});
