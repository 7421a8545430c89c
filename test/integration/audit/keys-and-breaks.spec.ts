import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { generateSigningKey } from '../../../src/audit/format/signing-key.js';
import { resumeLog } from '../../../src/audit/log/resume-log.js';
import { rotateKey } from '../../../src/audit/log/rotate-key.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import {
  EVENTS_OF_A_NEW_TENANT,
  keysOf,
  logKeysOf,
  type Sealing,
  startSealing,
  verifierKeyOf,
} from '../../support/audit.js';
import { orderBody } from '../../support/builders.js';

describe('keys and breaks of a log', () => {
  let service: TestApp;
  let sealing: Sealing;
  beforeEach(async () => {
    service = await startTestApp();
    sealing = await startSealing(service.database);
  });
  afterEach(async () => {
    await sealing.close();
    await service.close();
  });

  const place = async (count: number): Promise<void> => {
    for (let placed = 0; placed < count; placed += 1) await service.as('operator').post('/v1/orders', orderBody());
    await sealing.seal();
  };
  const rotate = async () => {
    const pem = generateSigningKey();
    const next = logKeysOf(pem);
    await rotateKey(sealing.tools, 1, next);
    const old = sealing.tools.keys;
    sealing.tools.keys = keysOf(pem);
    return { old, next, pem };
  };

  it('fault 30: after two rotations everything verifies, with any of the three keys', async () => {
    await place(3);
    const { pem: second } = await rotate();
    await place(3);
    const { pem: third } = await rotate();
    await place(3);
    for (const pem of [sealing.pem, second, third]) {
      const result = await sealing.verify({ trusted: [verifierKeyOf(pem)] });
      expect(result).toMatchObject({ verdict: 'intact', size: EVENTS_OF_A_NEW_TENANT + 12 });
    }
    expect(await sealing.verify({ trusted: [verifierKeyOf(generateSigningKey())] })).toMatchObject({
      verdict: 'unverifiable',
      fault: { code: 'UNKNOWN_KEY' },
    });
  });

  it('refuses to go on with a key that was given up, and takes up none twice', async () => {
    await place(1);
    const { old } = await rotate();
    sealing.tools.keys = old;
    await expect(place(1)).rejects.toThrow('sealed with another key');
    await expect(rotateKey(sealing.tools, 1, old.of(1))).rejects.toThrow('never taken again');
  });

  it('a rotation that was interrupted may run again: logs that have the key are left alone', async () => {
    await place(1);
    const { next } = await rotate();
    expect(await rotateKey(sealing.tools, 1, next)).toBe(false);
  });

  it('refuses to seal a restored database until a break is logged, which every verification reports', async () => {
    await place(1);
    await place(1);
    const early = (await sealing.directory.read(1)) ?? '';
    await cutLogTo(EVENTS_OF_A_NEW_TENANT + 2);
    await expect(sealing.seal()).rejects.toThrow(`fewer than the ${EVENTS_OF_A_NEW_TENANT + 3} published`);
    const forged = early.replace(`\n${EVENTS_OF_A_NEW_TENANT + 3}\n`, `\n${EVENTS_OF_A_NEW_TENANT + 4}\n`);
    await expect(resumeLog(sealing.tools, 1, forged)).rejects.toThrow('signature of the note is wrong');
    const foreign = early.replace('audit', 'audio');
    await expect(resumeLog(sealing.tools, 1, foreign)).rejects.toThrow('is of the log audio.test/1');

    expect(await resumeLog(sealing.tools, 1, early)).toEqual({
      origin: 'audit.test/1/2',
      size: EVENTS_OF_A_NEW_TENANT + 2,
    });
    await place(3);
    const result = await sealing.verify();
    expect(result).toMatchObject({
      verdict: 'intact',
      origin: 'audit.test/1/2',
      breaks: [
        {
          index: EVENTS_OF_A_NEW_TENANT + 2,
          origin: 'audit.test/1/2',
          abandonedSize: EVENTS_OF_A_NEW_TENANT + 3,
          abandonedNote: early,
        },
      ],
    });
    // Whoever kept the checkpoint sees that what it covered is gone.
    expect(await sealing.verify({ checkpoints: [early] })).toMatchObject({
      verdict: 'tampered',
      fault: {
        code: 'INCONSISTENT',
        detail: expect.stringContaining(`leaf ${EVENTS_OF_A_NEW_TENANT + 2} says that the log was restored`),
      },
    });
    await expect(resumeLog(sealing.tools, 1, (await sealing.directory.read(1)) ?? '')).rejects.toThrow(
      'nothing to resume',
    );
  });

  it('begins a log anew, and breaks it at once, where the restored database has none', async () => {
    await place(2);
    const early = (await sealing.directory.read(1)) ?? '';
    await cutLogTo(0);
    await sealing.tamper('DELETE FROM audit.logs; DELETE FROM audit.keys');
    await service.as('operator').post('/v1/orders', orderBody());
    await expect(sealing.seal()).rejects.toThrow(`fewer than the ${EVENTS_OF_A_NEW_TENANT + 3} published`);
    expect(await resumeLog(sealing.tools, 1, early)).toEqual({ origin: 'audit.test/1/2', size: 1 });
    await sealing.seal();
    expect(await sealing.verify()).toMatchObject({
      verdict: 'intact',
      origin: 'audit.test/1/2',
      size: EVENTS_OF_A_NEW_TENANT + 3,
      breaks: [{ index: 1, abandonedSize: EVENTS_OF_A_NEW_TENANT + 3 }],
    });
  });

  it('a crash between the commit of a break and its publication is made good by the next sealing', async () => {
    await place(1);
    await place(1);
    const early = (await sealing.directory.read(1)) ?? '';
    await cutLogTo(EVENTS_OF_A_NEW_TENANT + 2);
    const { directory } = sealing.tools;
    await resumeLog({ ...sealing.tools, directory: null }, 1, early);
    expect(await directory?.read(1)).toBe(early);
    await place(1);
    expect(await directory?.read(1)).toContain(`audit.test/1/2\n${EVENTS_OF_A_NEW_TENANT + 4}\n`);
    expect(await sealing.verify()).toMatchObject({
      verdict: 'intact',
      breaks: [{ index: EVENTS_OF_A_NEW_TENANT + 2 }],
    });
  });

  /** As after the restore of an older dump: orders that came later were never there, and whatever else did is not sealed. */
  async function cutLogTo(size: number): Promise<void> {
    await sealing.tamper(`
      CREATE TEMP TABLE late AS SELECT stream FROM audit.leaves WHERE leaf_index >= ${size};
      DELETE FROM audit.leaves WHERE leaf_index >= ${size};
      DELETE FROM audit.checkpoints WHERE size > ${size};
      DELETE FROM audit.queue;
      DELETE FROM audit.events WHERE stream IN (SELECT stream FROM late) AND stream ~ '^(order|log)/';
      INSERT INTO audit.queue SELECT tenant_id, stream, version, occurred_us FROM audit.events WHERE stream IN (SELECT stream FROM late);
      DELETE FROM waybill.order_contacts WHERE 'order/' || order_id IN (SELECT stream FROM late);
      DELETE FROM waybill.order_lines WHERE 'order/' || order_id IN (SELECT stream FROM late);
      DELETE FROM waybill.order_status_history WHERE 'order/' || order_id IN (SELECT stream FROM late);
      DELETE FROM waybill.orders WHERE 'order/' || id IN (SELECT stream FROM late);
      DROP TABLE late`);
  }
});
