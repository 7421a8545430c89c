import { beforeAll, describe, expect, it } from '@jest/globals';
import { MemoryLog } from '../../../test/support/witness.js';
import { eventHash } from '../format/event-hash.js';
import { parseNote } from '../format/signed-note.js';
import { generateSigningKey, parseSigningKey } from '../format/signing-key.js';
import { cosign, parseWitnessKey, witnessKeyText } from '../witness/cosignature.js';
import { type Entry, entryBytes, entryLeaf, parseEntry } from './entry.js';
import { MalformedProof, parseTlogProof, tlogProofText } from './tlog-proof.js';
import { ReceiptRefused, type ReceiptTrust, verifyReceipt } from './verify-receipt.js';

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
  sealedUs: 1_796_025_601_000_000,
  signature: Buffer.alloc(64, 9),
};

describe('a tlog-proof', () => {
  // Its form in the specification; what is cut there stands for something shorter.
  const example = `c2sp.org/tlog-proof@v1
extra YWdlLXYxLjIuMS1kYXJ3aW4tYXJtNjQudGFyLmd6
index 73894
gSKyXoYZUgZ6jduWYrkDOARinOMGJveXjgMkBTcdPlQ=
B95lDa8R83lS8n0eG+o0buTxRKQTYFi//1U8anccXmA=

example.com/fancylog
109482
sFodV/vSp5O8n9a8QpW6PRY97tfOSW5bsc2Xl/EQi08=

— example.com/fancylog AAAA
`;

  it("is read and written as the specification's example", () => {
    const proof = parseTlogProof(example);
    expect(proof).toMatchObject({ index: 73_894, checkpoint: example.slice(example.indexOf('example.com')) });
    expect(proof.hashes).toHaveLength(2);
    expect(tlogProofText(proof)).toBe(example);
  });

  it("has no extra line and no hashes where there are none, as in the reference implementation's tests", () => {
    const text = 'c2sp.org/tlog-proof@v1\nindex 0\n\ncheckpoint\n';
    const proof = parseTlogProof(text);
    expect(proof).toEqual({ extra: null, index: 0, hashes: [], checkpoint: 'checkpoint\n' });
    expect(tlogProofText(proof)).toBe(text);
  });

  it.each([
    'wrong-header\nindex 0\n\ncheckpoint\n',
    'c2sp.org/tlog-proof@v1\nextra !!notbase64!!\nindex 0\n\ncheckpoint\n',
    'c2sp.org/tlog-proof@v1\n\n\ncheckpoint\n',
    'c2sp.org/tlog-proof@v1\nindex notanumber\n\ncheckpoint\n',
    'c2sp.org/tlog-proof@v1\nindex -5\n\ncheckpoint\n',
    'c2sp.org/tlog-proof@v1\nindex 05\n\ncheckpoint\n',
    'c2sp.org/tlog-proof@v1\nindex 0\n!!notbase64!!\n\ncheckpoint\n',
    `c2sp.org/tlog-proof@v1\nindex 0\n${Buffer.alloc(64).toString('base64')}\n\ncheckpoint\n`,
    `c2sp.org/tlog-proof@v1\nindex 0\n${`${Buffer.alloc(32).toString('base64')}\n`.repeat(64)}\ncheckpoint\n`,
    'c2sp.org/tlog-proof@v1\nindex 0\nextra AAAA\n\ncheckpoint\n',
    'c2sp.org/tlog-proof@v1\r\nindex 0\r\n\r\ncheckpoint\r\n',
    'c2sp.org/tlog-proof@v1\nindex 0\n',
    '',
  ])('is refused when it is malformed: %j', (text) => {
    expect(() => parseTlogProof(text)).toThrow(MalformedProof);
  });
});

describe('the entry of an event', () => {
  it('is read as it was written', () => {
    expect(parseEntry(entryBytes(ENTRY))).toEqual(ENTRY);
  });

  it('is none when it is cut, longer, of another head, or not UTF-8', () => {
    const bytes = entryBytes(ENTRY);
    for (let length = 0; length < bytes.length; length += 1) expect(parseEntry(bytes.subarray(0, length))).toBeNull();
    expect(parseEntry(Buffer.concat([bytes, Buffer.alloc(1)]))).toBeNull();
    expect(parseEntry(Buffer.from(bytes.toString('latin1').replace('/v1', '/vx'), 'latin1'))).toBeNull();
    expect(parseEntry(Buffer.from(bytes.toString('latin1').replace('/v1', '/v01'), 'latin1'))).toBeNull();
    expect(parseEntry(Buffer.from(bytes.toString('latin1').replace('Gr\u00c3', 'Gr\u00ff'), 'latin1'))).toBeNull();
  });
});

describe('a receipt', () => {
  const origin = 'audit.example.com/1';
  const log = new MemoryLog(origin).grow(5);
  const w1 = parseSigningKey(generateSigningKey());
  const signer = { name: 'w1', privateKey: w1.privateKey, rawPublicKey: w1.publicKey };
  const trust: ReceiptTrust = { keys: [log.key], witnesses: [], quorum: 0 };
  let note: string;
  let text: string;
  beforeAll(async () => {
    log.leaves.push(entryLeaf(entryBytes(ENTRY)));
    log.grow(12);
    note = await log.note();
    text = await receipt(note);
  });
  const receipt = async (checkpoint: string, change: Partial<Parameters<typeof tlogProofText>[0]> = {}) =>
    tlogProofText({
      extra: entryBytes(ENTRY),
      index: 5,
      hashes: await log.reader.inclusionProof(5, 12),
      checkpoint,
      ...change,
    });
  const refusal = (receiptText: string, given: Partial<ReceiptTrust> = {}) => {
    try {
      verifyReceipt(receiptText, { ...trust, ...given });
    } catch (error) {
      if (error instanceof ReceiptRefused) return `${error.verdict} ${error.code}`;
      throw error;
    }
    return 'verified';
  };

  it('shows the event that is in the log, with its hash', () => {
    expect(verifyReceipt(text, trust)).toEqual({
      origin,
      size: 12,
      index: 5,
      entry: ENTRY,
      eventHash: eventHash(ENTRY.event),
      cosignedBy: [],
    });
  });

  it('is refused with any bit of its event, index, proof or checkpoint changed', async () => {
    const entry = entryBytes(ENTRY);
    for (let at = 0; at < entry.length; at += 1) {
      const changed = Buffer.from(entry);
      changed[at]! ^= 1;
      expect(refusal(await receipt(note, { extra: changed }))).toMatch(/ROOT_MISMATCH|UNREADABLE/);
    }
    expect(refusal(await receipt(note, { index: 4 }))).toBe('tampered ROOT_MISMATCH');
    expect(refusal(await receipt(note, { index: 12 }))).toBe('tampered ROOT_MISMATCH');
    expect(refusal(await receipt(note, { hashes: [] }))).toBe('tampered ROOT_MISMATCH');
    expect(refusal(await receipt(note, { extra: null }))).toBe('unverifiable UNREADABLE');
    expect(refusal(await receipt(note.replace('\n12\n', '\n13\n')))).toBe('tampered BAD_SIGNATURE');
    expect(refusal(await receipt('junk'))).toBe('tampered BAD_SIGNATURE');
    expect(refusal('junk')).toBe('unverifiable UNREADABLE');
  });

  it('is believed by whoever has the key of that log, and nobody else', async () => {
    const stranger = new MemoryLog(origin);
    expect(refusal(text, { keys: [stranger.key] })).toBe('unverifiable UNKNOWN_KEY');
    expect(refusal(text, { keys: [] })).toBe('unverifiable UNKNOWN_KEY');
    const other = new MemoryLog('audit.example.com/2').grow(12);
    expect(refusal(await receipt(await other.note()), { keys: [log.key, other.key] })).toBe('tampered ROOT_MISMATCH');
  });

  it('has as many cosignatures as are asked for', async () => {
    const witnesses = [parseWitnessKey(witnessKeyText('w1', w1.publicKey))];
    expect(refusal(text, { witnesses, quorum: 1 })).toBe('unverifiable NOT_WITNESSED');
    const cosigned = note + cosign(parseNote(note).text, signer, 1_800_000_000);
    expect(verifyReceipt(await receipt(cosigned), { ...trust, witnesses, quorum: 1 }).cosignedBy).toEqual([
      { name: 'w1', timestamp: 1_800_000_000 },
    ]);
    const wrong = note + cosign('another\n', signer, 1_800_000_000);
    expect(refusal(await receipt(wrong), { witnesses, quorum: 1 })).toBe('tampered BAD_SIGNATURE');
  });
});
