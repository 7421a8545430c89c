import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { eventPreimage } from '../format/event-hash.js';
import { LeafLines } from './leaf-line.js';
import { NotAsWritten } from './line-reader.js';

const TENANT = 7;

interface Line {
  index: number;
  stream: string;
  version: number;
  eventId: string;
  type: string;
  actor: string;
  occurredUs: number;
  body: string;
  prevHash: string;
  eventHash: string;
  format: number;
  sealedUs: number;
  signature: string;
}

const LINE: Line = {
  index: 12,
  stream: 'order/01935c1e-7b3a-7c1d-9f00-000000000001',
  version: 2,
  eventId: '66666666-7777-4888-9999-aaaaaaaaaaaa',
  type: 'order.confirmed',
  actor: '0193b6a0-0000-7000-8000-000000000007',
  occurredUs: 1_796_025_601_000_001,
  body: '{"a": "\\u001f", "ü": "日本 🍵", "tab": "\t", "bell": "\u0007"}',
  prevHash: createHash('sha256').update('before').digest('hex'),
  eventHash: createHash('sha256').update('this').digest('hex'),
  format: 1,
  sealedUs: 1_796_025_602_000_000,
  signature: Buffer.alloc(64, 0xa7).toString('base64'),
};

const reader = new LeafLines(TENANT);

function read(bytes: Buffer): ReturnType<LeafLines['read']> | null {
  try {
    return reader.read(bytes);
  } catch (error) {
    if (error instanceof NotAsWritten) return null;
    throw error;
  }
}

/** What the format says, as plainly as it can be said: the slow way. */
function isAsWritten(bytes: Buffer): boolean {
  if (!isUtf8(bytes)) return false;
  const text = bytes.toString();
  let line: Record<string, unknown>;
  try {
    line = JSON.parse(text) as Record<string, unknown>;
  } catch {
    return false;
  }
  const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
  const { signature } = line;
  return (
    typeof line === 'object' &&
    line !== null &&
    Object.keys(line).join() === Object.keys(LINE).join() &&
    JSON.stringify(line) === text &&
    ['index', 'version', 'occurredUs', 'format', 'sealedUs'].every((name) => isCount(line[name])) &&
    line.version !== 0 &&
    ['stream', 'type', 'body'].every((name) => typeof line[name] === 'string' && !/\p{Cs}/u.test(line[name])) &&
    ['eventId', 'actor'].every((name) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(String(line[name]))) &&
    ['prevHash', 'eventHash'].every((name) => /^[0-9a-f]{64}$/.test(String(line[name]))) &&
    typeof signature === 'string' &&
    Buffer.from(signature, 'base64').length === 64 &&
    Buffer.from(signature, 'base64').toString('base64') === signature
  );
}

describe('a line of an export', () => {
  const text = (): fc.Arbitrary<string> => fc.string({ unit: 'binary', maxLength: 60 });
  const count = (): fc.Arbitrary<number> => fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
  const hex = (length: number): fc.Arbitrary<string> =>
    fc.uint8Array({ minLength: length, maxLength: length }).map((bytes) => Buffer.from(bytes).toString('hex'));
  const lines = fc.record({
    index: count(),
    stream: text(),
    version: count().filter((version) => version > 0),
    eventId: fc.uuid(),
    type: text(),
    actor: fc.uuid(),
    occurredUs: count(),
    body: text(),
    prevHash: hex(32),
    eventHash: hex(32),
    format: fc.constant(1),
    sealedUs: count(),
    signature: hex(64).map((bytes) => Buffer.from(bytes, 'hex').toString('base64')),
  });

  it('is read as JSON.parse reads it, and its preimage is that of the event', () => {
    fc.assert(
      fc.property(lines, (line) => {
        const { preimage, prevHash, eventHash, signature, body, ...rest } = reader.read(
          Buffer.from(JSON.stringify(line)),
        );
        expect({ ...line, ...rest }).toEqual(line);
        expect(body()).toBe(line.body);
        expect([prevHash.toString('hex'), eventHash.toString('hex')]).toEqual([line.prevHash, line.eventHash]);
        expect(signature.toString('base64')).toBe(line.signature);
        const event = { ...line, tenantId: TENANT, prevHash: Buffer.from(line.prevHash, 'hex') };
        expect(preimage.toString('hex')).toBe(eventPreimage(event).toString('hex'));
      }),
    );
  });

  it('is read as long as it may be', () => {
    const body = 'x'.repeat(1_000_000);
    expect(read(Buffer.from(JSON.stringify({ ...LINE, body })))?.body()).toBe(body);
  });

  it('has one way to be written: with any byte changed, put in or left out, it is taken only where it is that way again', () => {
    const bytes = Buffer.from(JSON.stringify(LINE));
    const others = [...'019afAF/+="\\{}[],: \tnu-.eE'].map((character) => character.charCodeAt(0));
    let taken = 0;
    for (let at = 0; at < bytes.length; at += 1) {
      const edits = others.flatMap((byte) => [
        Buffer.concat([bytes.subarray(0, at), Buffer.from([byte]), bytes.subarray(at + 1)]),
        Buffer.concat([bytes.subarray(0, at), Buffer.from([byte]), bytes.subarray(at)]),
      ]);
      for (const edited of [...edits, Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)])]) {
        const isTaken = read(edited) !== null;
        if (isTaken !== isAsWritten(edited)) expect(edited.toString()).toBe(`taken: ${isTaken}`);
        if (isTaken) taken += 1;
      }
    }
    expect(taken).toBeGreaterThan(1000);
  });

  it.each<[string, (text: string) => string | Buffer]>([
    ['a member twice', (line) => line.replace('"version":2,', '"version":2,"version":2,')],
    ['an unknown member', (line) => line.replace('}', ',"more":1}')],
    ['a missing member', (line) => line.replace('"version":2,', '')],
    ['members in another order', (line) => line.replace(/("type":".*?"),("actor":".*?")/, '$2,$1')],
    ['2.0', (line) => line.replace('"version":2', '"version":2.0')],
    ['2e0', (line) => line.replace('"version":2', '"version":2e0')],
    ['a number as text', (line) => line.replace('"version":2', '"version":"2"')],
    ['minus nothing', (line) => line.replace('"index":12', '"index":-0')],
    ['a leading zero', (line) => line.replace('"index":12', '"index":012')],
    ['2^53', (line) => line.replace('"index":12', '"index":9007199254740992')],
    ['white space', (line) => line.replace('"version":2', '"version": 2')],
    ['a carriage return', (line) => `${line}\r`],
    ['something behind', (line) => `${line}{}`],
    ['a letter that needs no escape with one', (line) => line.replace('order/', '\\u006frder/')],
    ['a slash with a backslash', (line) => line.replace('order/', 'order\\/')],
    ['a tab as a number', (line) => line.replace('\\\\t', '\\\\u0009').replace('\\t', '\\u0009')],
    [
      'an escape in upper case',
      (line) => line.replace('\\u0007', '\\u0007'.toUpperCase().replace('U', 'u').replace('7', 'F')),
    ],
    ['a lone surrogate', (line) => line.replace('日', '\\ud800')],
    ['an escaped pair of surrogates', (line) => line.replace('🍵', '\\ud83c\\udf75')],
    ['a raw control character', (line) => line.replace('日', '\u0001')],
    ['a hash in upper case', (line) => line.replace(LINE.prevHash, LINE.prevHash.toUpperCase())],
    ['a hash that is too short', (line) => line.replace(LINE.prevHash, LINE.prevHash.slice(2))],
    ['a UUID in upper case', (line) => line.replace('aaaaaaaaaaaa', 'AAAAAAAAAAAA')],
    ['a UUID with hyphens elsewhere', (line) => line.replace('66666666-7777', '6666666-67777')],
    [
      'a UUID in braces',
      (line) => line.replace('"66666666-7777-4888-9999-aaaaaaaaaaaa"', '"{66666666-7777-4888-9999-aaaaaaaaaaaa}"'),
    ],
    ['base64 with bits that stand for nothing', (line) => line.replace('pw==', 'px==')],
    ['base64 without padding', (line) => line.replace('pw==', 'pw')],
    ['base64 for addresses', (line) => line.replace('p6en', 'p6-n')],
    ['a line break in base64', (line) => line.replace('p6en', 'p6en\\n')],
    [
      'bytes that are not UTF-8',
      (line) => Buffer.concat([Buffer.from(line.slice(0, 20)), Buffer.from([0xff]), Buffer.from(line.slice(20))]),
    ],
    [
      'a UTF-8 sequence that is longer than it must be',
      (line) => Buffer.from(line.replace('order/', 'order\u0001'), 'latin1').fill(0xc0, 25, 26),
    ],
    ['a byte order mark', (line) => `\ufeff${line}`],
  ])('is not taken with %s', (_, change) => {
    const original = JSON.stringify(LINE);
    const changed = change(original);
    const bytes = typeof changed === 'string' ? Buffer.from(changed) : changed;
    expect(bytes.equals(Buffer.from(original))).toBe(false);
    expect(read(bytes)).toBeNull();
    expect(isAsWritten(bytes)).toBe(false);
  });
});
