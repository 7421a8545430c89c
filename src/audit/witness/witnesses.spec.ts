import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { ServerResponse } from 'node:http';
import { MemoryLog, type RunningWitness, startWitness } from '../../../test/support/witness.js';
import { cosign, cosignaturesOn } from './cosignature.js';
import { generateSigningKey, parseSigningKey } from '../format/signing-key.js';
import { parseNote } from '../format/signed-note.js';
import { Witnesses } from './witnesses.js';

const ORIGIN = 'example.com/log';

describe('the witnesses of a log', () => {
  let log: MemoryLog;
  let running: RunningWitness[];
  let now: number;
  beforeEach(async () => {
    log = new MemoryLog(ORIGIN).grow(10);
    now = 1_000_000;
    running = await Promise.all(['w1', 'w2', 'w3'].map((name) => startWitness(name, [log.key])));
  });
  afterEach(() => Promise.all(running.map((witness) => witness.close())));

  const witnesses = (quorum = 2, timeout = 5000): Witnesses =>
    new Witnesses({ witnesses: running, quorum, timeout }, () => now);
  const keys = () => running.map(({ key }) => key);
  const answer = (status: number, body: string) => (_: unknown, response: ServerResponse) =>
    void response.writeHead(status).end(body);

  it('add a line each to the note, and each goes on from what it cosigned last', async () => {
    const asked = witnesses();
    const first = await asked.cosign(ORIGIN, await log.submission());
    expect(first).toMatchObject({ cosigned: 3, hasQuorum: true, troubles: [] });
    expect(cosignaturesOn(first.note, keys()).map(({ witness }) => witness.name)).toEqual(['w1', 'w2', 'w3']);
    for (const size of [11, 300, 300, 70_000]) {
      log.grow(size);
      expect(await asked.cosign(ORIGIN, await log.submission(size))).toMatchObject({ cosigned: 3, troubles: [] });
    }
    // Their size is known: none was asked twice.
    expect(running.map(({ requests }) => requests)).toEqual([5, 5, 5]);
  });

  it('are asked again with the size that they name, by a service that was started anew', async () => {
    await witnesses().cosign(ORIGIN, await log.submission());
    log.grow(25);
    expect(await witnesses().cosign(ORIGIN, await log.submission())).toMatchObject({ cosigned: 3, troubles: [] });
    expect(running.map(({ requests }) => requests)).toEqual([3, 3, 3]);
  });

  it('do not cosign what contradicts what they cosigned, nor less of it', async () => {
    await witnesses().cosign(ORIGIN, await log.submission());
    const fork = log.fork(5, 'other').grow(20);
    expect(await witnesses().cosign(ORIGIN, await fork.submission())).toMatchObject({
      cosigned: 0,
      hasQuorum: false,
      troubles: [{ trouble: 'refused' }, { trouble: 'refused' }, { trouble: 'refused' }],
    });
    const { troubles } = await witnesses().cosign(ORIGIN, await log.submission(7));
    expect(troubles.map(({ trouble }) => trouble)).toEqual(['ahead', 'ahead', 'ahead']);
    expect(troubles[0]?.message).toContain('10 leaves of this log, which has 7');
  });

  it.each([
    [404, '', 'refused'],
    [403, 'no\n', 'refused'],
    [500, '', 'away'],
    [503, '', 'away'],
    [429, '', 'away'],
    [409, '7', 'lied'],
    [409, 'seven\n', 'lied'],
    [409, '3\n', 'away'],
    [302, '', 'refused'],
    [200, '', 'lied'],
    [200, 'ok\n', 'lied'],
    [200, '— w1 AAAA\n', 'lied'],
    [200, 'x'.repeat(70_000), 'away'],
  ])('that answer %i %j are in trouble: %s', async (status, body, trouble) => {
    running[0]!.instead = answer(status, body);
    const { cosigned, hasQuorum, troubles } = await witnesses().cosign(ORIGIN, await log.submission());
    expect({ cosigned, hasQuorum, troubles }).toEqual({
      cosigned: 2,
      hasQuorum: true,
      troubles: [{ witness: 'w1', trouble, message: expect.any(String) }],
    });
  });

  it('that sign another checkpoint, or by another key, do not count', async () => {
    const stranger = parseSigningKey(generateSigningKey());
    const other = await log.note(9);
    const { text } = parseNote(await log.note());
    running[0]!.instead = answer(
      200,
      cosign(text, { name: 'w1', privateKey: stranger.privateKey, rawPublicKey: stranger.publicKey }, 5),
    );
    // A right signature, but of another size: taken from another log's publication.
    const replayed = await witnesses(1).cosign(ORIGIN, { ...(await log.submission(9)), note: other });
    const [, line = ''] = replayed.note.split('\n\n')[1]!.split(/(?=— w2)/u);
    running[1]!.instead = answer(200, line);
    const { troubles, cosigned } = await witnesses().cosign(ORIGIN, await log.submission());
    expect(cosigned).toBe(1);
    expect(troubles.map(({ witness, trouble }) => [witness, trouble]).toSorted()).toEqual([
      ['w1', 'lied'],
      ['w2', 'lied'],
    ]);
  });

  it('that do not answer are waited for until the time is over, and then left alone for a while', async () => {
    const silent = running[2]!;
    silent.instead = () => undefined;
    running[1]!.instead = answer(500, '');
    const asked = witnesses(2, 300);
    expect(await asked.cosign(ORIGIN, await log.submission())).toMatchObject({ cosigned: 1, hasQuorum: false });
    expect(await asked.cosign(ORIGIN, await log.submission())).toMatchObject({ cosigned: 1, hasQuorum: false });
    expect(silent.requests).toBe(1);
    now += 1000;
    silent.instead = null;
    expect(await asked.cosign(ORIGIN, await log.submission())).toMatchObject({ cosigned: 2, hasQuorum: true });
    const figures = asked.figures().map(({ witness, cosigned, troubles: { away } }) => [witness, cosigned, away]);
    expect(figures).toEqual([
      ['w1', 3, 0],
      ['w2', 0, 2],
      ['w3', 1, 1],
    ]);
  });

  it('that are slow hold nobody up who has the quorum without them, and are asked again', async () => {
    running[2]!.instead = () => undefined;
    const asked = witnesses(2, 600_000);
    expect(await asked.cosign(ORIGIN, await log.submission())).toMatchObject({ cosigned: 2, hasQuorum: true });
    running[2]!.instead = null;
    expect(await asked.cosign(ORIGIN, await log.submission())).toMatchObject({ cosigned: 3 });
  });

  it('that nobody listens for are away', async () => {
    const [gone] = running.splice(0, 1);
    await gone!.close();
    const asked = new Witnesses({ witnesses: [gone!, ...running], quorum: 2, timeout: 5000 });
    const { troubles, hasQuorum } = await asked.cosign(ORIGIN, await log.submission());
    expect(hasQuorum).toBe(true);
    expect(troubles).toEqual([{ witness: 'w1', trouble: 'away', message: expect.stringContaining('ECONNREFUSED') }]);
  });
});
