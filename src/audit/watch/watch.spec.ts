import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MemoryLog } from '../../../test/support/witness.js';
import { parseNote } from '../format/signed-note.js';
import { generateSigningKey, parseSigningKey } from '../format/signing-key.js';
import { BadTile } from '../tiles/tile-source.js';
import { cosign, parseWitnessKey, witnessKeyText } from '../witness/cosignature.js';
import { Alarm, Watch, type WatchSettings } from './watch.js';
import { NoAnswer, type WatchedLog } from './watched-log.js';

const ORIGIN = 'example.com/log';

describe('a monitor', () => {
  let folder: string;
  let noteFile: string;
  let log: MemoryLog;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'waybill-watch-'));
    noteFile = join(folder, 'kept.note');
    log = new MemoryLog(ORIGIN).grow(300);
    await look(log);
  });
  afterEach(() => rm(folder, { recursive: true }));

  const shown = (what: MemoryLog, note?: string): WatchedLog => ({
    checkpoint: () => (note === undefined ? what.note() : Promise.resolve(note)),
    consistencyProof: (from, to) => what.reader.consistencyProof(from, to),
  });
  const look = (what: MemoryLog | WatchedLog, settings: Partial<WatchSettings> = {}) =>
    new Watch({
      log: what instanceof MemoryLog ? shown(what) : what,
      keys: [log.key],
      witnesses: [],
      quorum: 0,
      noteFile,
      stoppedAfter: null,
      ...settings,
    }).look();
  const alarm = async (looked: Promise<unknown>): Promise<Alarm> => {
    const [result] = await Promise.allSettled([looked]);
    if (result.status === 'fulfilled' || !(result.reason instanceof Alarm)) throw new Error(JSON.stringify(result));
    return result.reason;
  };

  it('takes what contains what it kept, and keeps that', async () => {
    expect(await look(log)).toEqual({ origin: ORIGIN, size: 300, before: 300 });
    expect(await look(log.grow(70_000))).toEqual({ origin: ORIGIN, size: 70_000, before: 300 });
    expect(await readFile(noteFile, 'utf8')).toBe(await log.note());
  });

  it('takes any checkpoint after that of an empty log', async () => {
    const fresh = new MemoryLog(ORIGIN);
    const settings = { keys: [fresh.key], noteFile: join(folder, 'fresh.note') };
    expect(await look(fresh, settings)).toMatchObject({ size: 0, before: null });
    expect(await look(fresh.grow(2), settings)).toMatchObject({ size: 2, before: 0 });
  });

  const fork = () => log.fork(299, 'other');
  it.each<[string, string, () => Promise<WatchedLog>]>([
    ['other leaves, as many', 'INCONSISTENT', () => Promise.resolve(shown(fork().grow(300)))],
    ['other leaves, and more', 'INCONSISTENT', () => Promise.resolve(shown(fork().grow(310)))],
    ['fewer leaves', 'SIZE_BELOW_CHECKPOINT', async () => shown(log, await log.note(299))],
    [
      'no tiles to show it with',
      'INCONSISTENT',
      () => Promise.resolve({ ...shown(log.grow(310)), consistencyProof: () => Promise.reject(new BadTile('none')) }),
    ],
    [
      'a proof of another size',
      'INCONSISTENT',
      () => Promise.resolve({ ...shown(log.grow(310)), consistencyProof: () => log.reader.consistencyProof(299, 310) }),
    ],
    ['a wrong signature', 'BAD_SIGNATURE', async () => shown(log, (await log.note()).replace('\n300\n', '\n301\n'))],
    ['no checkpoint at all', 'BAD_SIGNATURE', () => Promise.resolve(shown(log, '<html>'))],
    ['a stranger’s signature', 'UNKNOWN_KEY', () => Promise.resolve(shown(new MemoryLog(ORIGIN).grow(310)))],
    [
      'no answer',
      'UNREADABLE',
      () => Promise.resolve({ ...shown(log), checkpoint: () => Promise.reject(new NoAnswer('gone')) }),
    ],
  ])('shouts at %s: %s', async (_what, code, misbehaving) => {
    const kept = await readFile(noteFile, 'utf8');
    const found = await alarm(look(await misbehaving()));
    expect(found.code).toBe(code);
    // What was kept stays, as one half of the proof; the other half is the note that was given.
    expect(await readFile(noteFile, 'utf8')).toBe(kept);
    if (code !== 'UNREADABLE') expect(found.note).not.toBeNull();
  });

  it('shouts when the log goes on under another name', async () => {
    const next = new MemoryLog(`${ORIGIN}/2`).grow(310);
    expect((await alarm(look(next, { keys: [log.key, next.key] }))).code).toBe('INCONSISTENT');
    // A key vouches for the log of its own name only.
    const other = new MemoryLog('example.com/other').grow(310);
    const posing = { ...log.key, name: other.key.name, keyId: other.key.keyId, publicKey: other.key.publicKey };
    expect((await alarm(look(shown(log.grow(310)), { keys: [posing] }))).code).toBe('UNREADABLE');
  });

  it('shouts when the log grows no more, whether it answers or not', async () => {
    const { mtimeMs } = await stat(noteFile);
    const later = { stoppedAfter: 60_000, now: () => mtimeMs + 60_000 };
    const soon = { stoppedAfter: 60_000, now: () => mtimeMs + 59_000 };
    const silent = { ...shown(log), checkpoint: () => Promise.reject(new NoAnswer('gone')) };
    expect(await look(log, soon)).toMatchObject({ size: 300 });
    expect((await alarm(look(log, later))).code).toBe('STOPPED');
    expect((await alarm(look(silent, later))).code).toBe('STOPPED');
    expect((await alarm(look(silent, soon))).code).toBe('UNREADABLE');
    expect(await look(log.grow(301), later)).toMatchObject({ size: 301 });
  });

  it('asks for as many cosignatures as it is told to', async () => {
    const witnesses = ['w1', 'w2'].map((name) => {
      const { privateKey, publicKey } = parseSigningKey(generateSigningKey());
      return { name, privateKey, rawPublicKey: publicKey };
    });
    const keys = witnesses.map(({ name, rawPublicKey }) => parseWitnessKey(witnessKeyText(name, rawPublicKey)));
    const note = await log.grow(310).note();
    const { text } = parseNote(note);
    const cosigned = (count: number) =>
      shown(
        log,
        note +
          witnesses
            .slice(0, count)
            .map((witness) => cosign(text, witness, 1_800_000_000))
            .join(''),
      );
    expect((await alarm(look(cosigned(1), { witnesses: keys, quorum: 2 }))).code).toBe('NOT_WITNESSED');
    expect(await look(cosigned(1), { witnesses: keys, quorum: 1 })).toMatchObject({ size: 310 });
    expect(await look(cosigned(2), { witnesses: keys, quorum: 2 })).toMatchObject({ size: 310 });
    // The same witness twice, and a cosignature of another checkpoint.
    const [first] = witnesses as [(typeof witnesses)[0]];
    const line = cosign(text, first, 1_800_000_000);
    expect((await alarm(look(shown(log, note + line + line), { witnesses: keys, quorum: 2 }))).code).toBe(
      'NOT_WITNESSED',
    );
    const wrong = note + cosign(text.replace('310', '311'), first, 1_800_000_000);
    expect((await alarm(look(shown(log, wrong), { witnesses: keys, quorum: 1 }))).code).toBe('BAD_SIGNATURE');
  });

  it('takes no kept note on trust', async () => {
    for (const text of ['', 'junk', await new MemoryLog(ORIGIN).grow(5).note()]) {
      await writeFile(noteFile, text);
      expect(await alarm(look(log))).toMatchObject({ code: 'UNREADABLE', message: expect.stringContaining(noteFile) });
    }
  });
});
