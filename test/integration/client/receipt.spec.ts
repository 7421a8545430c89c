import { beforeAll, describe, expect, it } from '@jest/globals';
import { ReceiptError, type ReceiptTrust, verifyReceipt } from '../../../clients/typescript/src/index.js';
import { eventHash } from '../../../src/audit/format/event-hash.js';
import { parseNote, verifierKeyText } from '../../../src/audit/format/signed-note.js';
import { generateSigningKey, parseSigningKey } from '../../../src/audit/format/signing-key.js';
import { type Entry, entryBytes, entryLeaf } from '../../../src/audit/receipts/entry.js';
import { tlogProofText } from '../../../src/audit/receipts/tlog-proof.js';
import { cosign, witnessKeyText } from '../../../src/audit/witness/cosignature.js';
import { MemoryLog } from '../../support/witness.js';

const ENTRY: Entry = {
  event: {
    tenantId: 1,
    eventId: '11111111-2222-4333-8444-555555555555',
    stream: 'order/01935c1e-7b3a-7c1d-9f00-000000000001',
    version: 1,
    occurredUs: 1_796_025_600_123_457,
    type: 'order.created',
    actor: '0193b6a0-0000-7000-8000-000000000007',
    body: '{"snapshot": {"note": "Grün, 日本, 🍵"}}',
    prevHash: Buffer.alloc(32, 5),
    format: 1,
  },
  sealedUs: 1_796_025_601_000_001,
  signature: Buffer.alloc(64, 9),
};

describe('the client checks a receipt offline', () => {
  const log = new MemoryLog('audit.example.com/1').grow(5);
  const w1 = parseSigningKey(generateSigningKey());
  const witness = { name: 'w1', privateKey: w1.privateKey, rawPublicKey: w1.publicKey };
  const trust: ReceiptTrust = { keys: [verifierKeyText(log.origin, log.key.rawPublicKey)] };
  let note: string;
  beforeAll(async () => {
    log.leaves.push(entryLeaf(entryBytes(ENTRY)));
    log.grow(300);
    note = await log.note();
  });
  const receipt = async (change: Partial<Parameters<typeof tlogProofText>[0]> = {}) =>
    tlogProofText({
      extra: entryBytes(ENTRY),
      index: 5,
      hashes: await log.reader.inclusionProof(5, 300),
      checkpoint: note,
      ...change,
    });
  const fault = async (text: string, given: ReceiptTrust = trust): Promise<string> => {
    const [result] = await Promise.allSettled([verifyReceipt(text, given)]);
    return result.status === 'rejected' && result.reason instanceof ReceiptError ? result.reason.code : result.status;
  };

  it('and shows its event, with the hash that the write was answered with', async () => {
    expect(await verifyReceipt(await receipt(), trust)).toEqual({
      origin: log.origin,
      size: 300,
      index: 5,
      event: {
        tenantId: 1,
        eventId: ENTRY.event.eventId,
        stream: ENTRY.event.stream,
        version: 1,
        occurredAt: '2026-11-30T08:00:00.123457Z',
        type: 'order.created',
        actor: ENTRY.event.actor,
        body: ENTRY.event.body,
        prevHash: '05'.repeat(32),
        eventHash: eventHash(ENTRY.event).toString('hex'),
        sealedAt: '2026-11-30T08:00:01.000001Z',
      },
      cosignedBy: [],
    });
  });

  it('whatever its place is', async () => {
    const leaves = new MemoryLog('audit.example.com/1').grow(40);
    for (const [index, size] of [
      [0, 1],
      [0, 2],
      [6, 7],
      [7, 8],
      [39, 40],
    ] as const) {
      leaves.leaves[index] = entryLeaf(entryBytes(ENTRY));
      const text = await receipt({
        index,
        hashes: await leaves.reader.inclusionProof(index, size),
        checkpoint: await leaves.note(size),
      });
      const keys = [verifierKeyText(leaves.origin, leaves.key.rawPublicKey)];
      expect(await verifyReceipt(text, { keys })).toMatchObject({ index, size });
    }
  });

  it('and refuses one with any bit of event, index, proof or checkpoint changed', async () => {
    const entry = entryBytes(ENTRY);
    for (let at = 0; at < entry.length; at += 1) {
      const changed = Buffer.from(entry);
      changed[at]! ^= 1;
      expect(await fault(await receipt({ extra: changed }))).toMatch(/ROOT_MISMATCH|UNREADABLE/);
    }
    expect(await fault(await receipt({ extra: entry.subarray(0, -1) }))).toBe('UNREADABLE');
    expect(await fault(await receipt({ index: 4 }))).toBe('ROOT_MISMATCH');
    expect(await fault(await receipt({ index: 300 }))).toBe('ROOT_MISMATCH');
    expect(await fault(await receipt({ hashes: [] }))).toBe('ROOT_MISMATCH');
    expect(await fault(await receipt({ extra: null }))).toBe('UNREADABLE');
    expect(await fault(await receipt({ checkpoint: note.replace('\n300\n', '\n301\n') }))).toBe('BAD_SIGNATURE');
    expect(await fault(await receipt({ checkpoint: 'junk' }))).toBe('UNREADABLE');
    expect(await fault('junk')).toBe('UNREADABLE');
    expect(await fault((await receipt()).replaceAll('\n', '\r\n'))).toBe('UNREADABLE');
  });

  it('believes the keys that it was given', async () => {
    expect(await fault(await receipt(), { keys: [] })).toBe('UNKNOWN_KEY');
    const stranger = new MemoryLog(log.origin);
    expect(await fault(await receipt(), { keys: [verifierKeyText(log.origin, stranger.key.rawPublicKey)] })).toBe(
      'UNKNOWN_KEY',
    );
    await expect(verifyReceipt(await receipt(), { keys: ['junk'] })).rejects.toThrow('"junk" is not');
    const damaged = trust.keys[0]!.replace(/\+[0-9a-f]/, (found) => (found === '+0' ? '+1' : '+0'));
    await expect(verifyReceipt(await receipt(), { keys: [damaged] })).rejects.toThrow('is not the Ed25519');
  });

  it('counts witnesses, each once', async () => {
    const witnesses = [witnessKeyText('w1', w1.publicKey)];
    expect(await fault(await receipt(), { ...trust, witnesses })).toBe('NOT_WITNESSED');
    expect(await verifyReceipt(await receipt(), { ...trust, witnesses, quorum: 0 })).toMatchObject({ cosignedBy: [] });
    const { text } = parseNote(note);
    const line = cosign(text, witness, 1_800_000_000);
    const cosigned = await receipt({ checkpoint: note + line + line });
    expect((await verifyReceipt(cosigned, { ...trust, witnesses })).cosignedBy).toEqual([
      { name: 'w1', at: new Date(1_800_000_000_000) },
    ]);
    const both = [...witnesses, witnessKeyText('w2', w1.publicKey)];
    const twice = note + line + cosign(text, { ...witness, name: 'w2' }, 1_800_000_000);
    expect(await fault(await receipt({ checkpoint: twice }), { ...trust, witnesses: both })).toBe('NOT_WITNESSED');
    const wrong = note + cosign('another\n', witness, 1_800_000_000);
    expect(await fault(await receipt({ checkpoint: wrong }), { ...trust, witnesses })).toBe('BAD_SIGNATURE');
  });
});
