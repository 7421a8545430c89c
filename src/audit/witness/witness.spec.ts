import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseCheckpoint, signCheckpoint } from '../format/checkpoint.js';
import { sha256 } from '../format/event-hash.js';
import { parseNote, type NoteVerifier, verifierOf } from '../format/signed-note.js';
import { generateSigningKey, parseSigningKey } from '../format/signing-key.js';
import { cosignaturesOn, parseWitnessKey, type WitnessKey, witnessKeyText } from './cosignature.js';
import { Witness } from './witness.js';
import { DamagedState, originHash, WitnessState } from './witness-state.js';

/*
 * The requests that FiloSottile/torchwood tests its witness with, byte for byte. It answers 403 to an unknown log, as an
 * older text of the specification asked for.
 */
const ORIGIN = 'sigsum.org/v1/tree/4d6d8825a6bb689d459628312889dfbb0bcd41b5211d9e1ce768b0ff0309e562';
const LOG_KEY = Buffer.from('ffdc2d4d98e4124d3feaf788c0c2f9abfd796083d1f0495437f302ec79cf100f', 'hex');
const leaf = (value: number): string => Buffer.from([42, value, ...Array<number>(30).fill(0)]).toString('base64');
const HEADS = {
  1: {
    root: leaf(0),
    signature: 'UgIom7fPZTqpxWWhyjWduBvTvGVqsokMbqTArsQilegKoFBJQjUFAmQ0+YeSPM3wfUQMFSzVnnNuWRTYrajXpNUbIQY=',
  },
  3: {
    root: 'RcCI1Nk56ZcSmIEfIn0SleqtV7uvrlXNccFx595Iwl0=',
    signature: 'UgIom2VbtIcdFbwFAy1n7s6IkAxIY6J/GQOTuZF2ORV39d75cbAj2aQYwyJre36kezNobZs4SUUdrcawfAB8WVrx6go=',
  },
  5: {
    root: 'QrtXrQZCCvpIgsSmOsah7HdICzMLLyDfxToMql9WTjY=',
    signature: 'UgIomw/EOJmWi0i1FQsOj+etB7F8IccFam/jgd6wzRns4QPVmyEZtdvl1U2KEmLOZ/ASRcWJi0tW90dJWAShei7sDww=',
  },
};
const ONE_TO_THREE = [leaf(1), leaf(2)];
const ONE_TO_FIVE = [leaf(1), '+fUDV+k970B4I3uKrqJM4aP1lloPZP8mvr2Z4wRw2LI=', leaf(4)];
const THREE_TO_FIVE = [leaf(2), leaf(3), 'wgiIFdZfYNv6WU1OllBKsWnLYIS/DBMqt8Uh/S4OukE=', leaf(4)];

function request(old: number, size: keyof typeof HEADS, proof: string[] = [], origin = ORIGIN): string {
  const { root, signature } = HEADS[size];
  const lines = proof.map((hash) => `${hash}\n`).join('');
  return `old ${old}\n${lines}\n${origin}\n${size}\n${root}\n\n— ${origin} ${signature}\n`;
}

describe('a witness', () => {
  const { privateKey, publicKey } = parseSigningKey(generateSigningKey());
  const signer = { name: 'witness.example/w1', privateKey, rawPublicKey: publicKey };
  let key: WitnessKey;
  let folder: string;
  let state: WitnessState;
  let logs: NoteVerifier[];
  let witness: Witness;
  beforeAll(async () => {
    key = parseWitnessKey(witnessKeyText(signer.name, publicKey));
    folder = await mkdtemp(join(tmpdir(), 'waybill-witness-'));
    state = await WitnessState.open(folder, key);
    logs = [verifierOf(ORIGIN, LOG_KEY)];
    witness = new Witness(signer, () => Promise.resolve(logs), state);
  });
  afterAll(async () => {
    await state.close();
    await rm(folder, { recursive: true });
  });

  const statusOf = async (body: string): Promise<[number, string]> => {
    const { status, body: said } = await witness.addCheckpoint(body);
    return [status, said];
  };

  it('cosigns a first checkpoint, and keeps it with both signatures', async () => {
    const body = request(0, 1);
    const answer = await witness.addCheckpoint(body);
    expect(answer).toMatchObject({ status: 200, origin: ORIGIN });
    const note = body.slice(body.indexOf('\n\n') + 2);
    const [cosignature] = cosignaturesOn(note + answer.body, [key]);
    expect(Math.abs((cosignature?.timestamp ?? 0) - Date.now() / 1000)).toBeLessThan(60);
    expect(await witness.latest(originHash(ORIGIN))).toBe(note + answer.body);
  });

  it('refuses what the reference refuses, with the statuses of the specification', async () => {
    const broken = request(1, 3, ONE_TO_THREE).replace('6go=', '6gx=');
    expect((await statusOf(broken))[0]).toBe(400);
    expect((await statusOf(request(1, 3, ONE_TO_THREE).replace('UgIom2Vb', 'UgIom2Vc')))[0]).toBe(403);
    expect((await statusOf(request(1, 3, ONE_TO_THREE, ORIGIN.replace(/2$/, '3'))))[0]).toBe(404);
    expect((await statusOf(request(1, 3)))[0]).toBe(422);
    expect((await statusOf(request(1, 3, [leaf(1), leaf(2).replace('AAA=', 'ABA=')])))[0]).toBe(422);
    expect((await statusOf(request(3, 1)))[0]).toBe(400);
    expect((await statusOf(request(0, 1)))[0]).toBe(409);
  });

  it('goes on with a proof from what it cosigned last, and says its size to who has another', async () => {
    expect((await statusOf(request(1, 3, ONE_TO_THREE)))[0]).toBe(200);
    expect(await witness.addCheckpoint(request(1, 5, ONE_TO_FIVE))).toEqual({
      status: 409,
      contentType: 'text/x.tlog.size',
      body: '3\n',
      origin: ORIGIN,
    });
    expect((await statusOf(request(3, 5, THREE_TO_FIVE)))[0]).toBe(200);
    expect(await statusOf(request(0, 5))).toEqual([409, '5\n']);
  });

  it('cosigns the same checkpoint again, and no smaller one', async () => {
    expect((await statusOf(request(5, 5)))[0]).toBe(200);
    expect(await statusOf(request(1, 3, ONE_TO_THREE))).toEqual([409, '5\n']);
    expect((await statusOf(request(5, 3)))[0]).toBe(400);
    expect((await statusOf(request(5, 5, [leaf(1)])))[0]).toBe(422);
  });

  it('of two larger checkpoints at once cosigns one', async () => {
    const log = parseSigningKey(generateSigningKey());
    const origin = 'example.com/fork';
    logs.push(verifierOf(origin, log.publicKey));
    const head = (size: number, fill: number): string =>
      signCheckpoint({ origin, size, root: Buffer.alloc(32, fill) }, [
        { name: origin, privateKey: log.privateKey, rawPublicKey: log.publicKey },
      ]);
    const answers = await Promise.all([1, 2, 3, 4].map((fill) => witness.addCheckpoint(`old 0\n\n${head(4, fill)}`)));
    expect(answers.map(({ status }) => status)).toEqual([200, 409, 409, 409]);
    // The other one of the same size is a fork, whatever is said of the old size.
    expect((await statusOf(`old 4\n\n${head(4, 2)}`))[0]).toBe(422);
    expect(parseCheckpoint(parseNote((await witness.latest(originHash(origin))) ?? '').text).root[0]).toBe(1);
  });

  it('takes an empty log only with the root of one', async () => {
    const log = parseSigningKey(generateSigningKey());
    const origin = 'example.com/empty';
    logs.push(verifierOf(origin, log.publicKey));
    const signers = [{ name: origin, privateKey: log.privateKey, rawPublicKey: log.publicKey }];
    const empty = (root: Buffer): string => `old 0\n\n${signCheckpoint({ origin, size: 0, root }, signers)}`;
    expect((await statusOf(empty(Buffer.alloc(32))))[0]).toBe(422);
    expect((await statusOf(empty(sha256())))[0]).toBe(200);
    expect((await statusOf(empty(sha256())))[0]).toBe(200);
  });

  it.each([
    ['', 'nothing'],
    ['old 1', 'no note'],
    [request(1, 3, ONE_TO_THREE).replace('old 1', 'old 01'), 'a size with a zero in front'],
    [request(1, 3, ONE_TO_THREE).replace('old 1', 'new 1'), 'another word'],
    [request(1, 3, ['AAAA']), 'a short hash'],
    [request(1, 3, Array<string>(64).fill(leaf(0))), 'too many hashes'],
    [request(1, 3, ONE_TO_THREE).replaceAll('\n', '\r\n'), 'lines that end as elsewhere'],
    [request(1, 3, ONE_TO_THREE).slice(0, -1), 'no newline at the end'],
    [request(1, 3, ONE_TO_THREE).replace('\n3\n', '\n03\n'), 'another checkpoint'],
  ])('answers 400 to what is malformed: %#', async (body, what) => {
    expect((await statusOf(body))[0]).toBe(400);
    expect(what).not.toBe('');
  });

  it('remembers across a restart, and lets nobody else use its folder meanwhile', async () => {
    // Another process that is there: that of this test's runner.
    await writeFile(join(folder, 'lock'), `${process.ppid}\n`);
    await expect(WitnessState.open(folder, key)).rejects.toThrow(`process id ${process.ppid}`);
    await writeFile(join(folder, 'lock'), `${process.pid}\n`);
    const again = new Witness(signer, () => Promise.resolve(logs), await WitnessState.open(folder, key));
    expect(await again.addCheckpoint(request(0, 5))).toMatchObject({ status: 409, body: '5\n' });
    expect((await readdir(folder)).filter((name) => name.endsWith('.tmp'))).toEqual([]);
  });

  it('answers nothing where its memory is damaged', async () => {
    const file = join(folder, `${originHash(ORIGIN)}.checkpoint`);
    for (const text of ['', 'junk\n', request(0, 5).slice(7)]) {
      await writeFile(file, text);
      await expect(witness.addCheckpoint(request(0, 5))).rejects.toThrow(DamagedState);
    }
  });
});
