import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { generateSigningKey } from '../../../src/audit/format/signing-key.js';
import { type NoteVerifier, verifierKeyText } from '../../../src/audit/format/signed-note.js';
import { exportSource } from '../../../src/audit/log/export-source.js';
import { rotateKey } from '../../../src/audit/log/rotate-key.js';
import { type ExportHeader, type ExportLine, LINE_MEMBERS } from '../../../src/audit/verify/export-format.js';
import { parseTrustedKey } from '../../../src/audit/verify/trusted-key.js';
import { verifyExport } from '../../../src/audit/verify/verify-export.js';
import { writeExport } from '../../../src/audit/verify/write-export.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import {
  EVENTS_OF_A_NEW_TENANT,
  keysOf,
  logKeysOf,
  ORIGIN,
  type Sealing,
  startSealing,
  verifierKeyOf,
} from '../../support/audit.js';
import { type Order, orderBody } from '../../support/builders.js';
import { askFirst, askSecond, type Said, type VerifierCase } from '../../support/verifiers.js';

const SECOND_VERIFIER = join(import.meta.dirname, '../../verifier/verify.py');
/** Leaves before the first order: the event that starts the log, and what the tenant has to tell of itself. */
const FIRST = 1 + EVENTS_OF_A_NEW_TENANT;
/** The line that is tampered with: the first event of an order. */
const LINE = FIRST + 1;

/** One export of a real service, tampered with in memory, and what both verifiers must call it. */
type Tampered = [what: string, change: () => Partial<VerifierCase>, code: string | null];

describe('two verifiers of one format', () => {
  let service: TestApp;
  let sealing: Sealing;
  const keys: string[] = [];
  const kept: string[] = [];
  let intact: string[];
  beforeAll(async () => {
    service = await startTestApp();
    sealing = await startSealing(service.database);
    await sealing.seal();
    keys.push(textOf(verifierKeyOf(sealing.pem)));
    for (let rotation = 0; rotation < 3; rotation += 1) {
      const { body } = await service
        .as('operator')
        .post<Order>('/v1/orders', orderBody({ metadata: { ü: '日本 \u{1F375}' } }));
      await service.as('operator').post(`/v1/orders/${body.id}/transitions`, { to: 'confirmed' });
      await sealing.seal();
      kept.push((await sealing.directory.read(1)) ?? '');
      if (rotation === 2) break;
      const pem = generateSigningKey();
      await rotateKey(sealing.tools, 1, logKeysOf(pem));
      sealing.tools.keys = keysOf(pem);
      keys.push(textOf(verifierKeyOf(pem)));
    }
    await service.as('admin').post('/v1/customers/c-42/erasure', undefined);
    await sealing.seal();
    intact = await exported();
  });
  afterAll(async () => {
    await sealing.close();
    await service.close();
  });

  const textOf = ({ name, rawPublicKey }: NoteVerifier): string => verifierKeyText(name, rawPublicKey);
  const exported = async (): Promise<string[]> => {
    const source = await exportSource(sealing.pool, 1);
    let text = '';
    for await (const chunk of writeExport(source!)) text += chunk;
    return text.trimEnd().split('\n');
  };
  /** The export with one line changed. */
  const edit = <T extends object>(at: number, change: (line: T) => void): Partial<VerifierCase> => {
    const line = JSON.parse(intact[at]!) as T;
    change(line);
    return { lines: intact.with(at, JSON.stringify(line)) };
  };
  const editLine = (change: (line: ExportLine) => void) => edit<ExportLine>(LINE, change);
  const editHeader = (change: (header: ExportHeader) => void) => edit<ExportHeader>(0, change);
  const lines = (change: (all: string[]) => string[]): Partial<VerifierCase> => ({ lines: change(intact) });
  const flip = (text: string): string => (text.startsWith('0') ? '1' : '0') + text.slice(1);
  const renumber = ([header, ...events]: string[]): string[] => [
    header!,
    ...events.map((line, index) => JSON.stringify({ ...(JSON.parse(line) as ExportLine), index })),
  ];
  /** Another root in the same note. */
  const forged = (note: string): string => {
    const [origin, size, root = '', ...rest] = note.split('\n');
    return [origin, size, (root.startsWith('A') ? 'B' : 'A') + root.slice(1), ...rest].join('\n');
  };
  const short = (): Partial<VerifierCase> => ({
    lines: [
      JSON.stringify({ ...(JSON.parse(intact[0]!) as ExportHeader), size: FIRST + 2, checkpoint: kept[0] }),
      ...intact.slice(1, FIRST + 3),
    ],
  });

  const cases: Tampered[] = [
    ['nothing, with the first key', () => ({ vkeys: [keys[0]!], checkpoints: kept }), null],
    ['nothing, with the second key', () => ({ vkeys: [keys[1]!], checkpoints: kept }), null],
    ['nothing, with the third key', () => ({ vkeys: [keys[2]!], checkpoints: kept }), null],
    [
      'nothing, with the first key as far as it signed',
      () => ({ vkeys: [`${keys[0]}@${FIRST + 3}`], checkpoints: kept }),
      null,
    ],
    ['nothing, with the first key for less', () => ({ vkeys: [`${keys[0]}@${FIRST + 2}`] }), 'UNKNOWN_KEY'],
    ["nothing, with a stranger's key", () => ({ vkeys: [textOf(verifierKeyOf(generateSigningKey()))] }), 'UNKNOWN_KEY'],
    [
      'nothing, with its key under another name',
      () => ({ vkeys: [verifierKeyText(`${ORIGIN}/2`, verifierKeyOf(sealing.pem).rawPublicKey)] }),
      'UNKNOWN_KEY',
    ],
    ['a body', () => editLine((line) => (line.body += ' ')), 'HASH_MISMATCH'],
    ['a type', () => editLine((line) => (line.type = 'order.shipped')), 'HASH_MISMATCH'],
    ['an actor', () => editLine((line) => (line.actor = flip(line.actor))), 'HASH_MISMATCH'],
    ['an event id', () => editLine((line) => (line.eventId = flip(line.eventId))), 'HASH_MISMATCH'],
    ['a time', () => editLine((line) => (line.occurredUs += 1)), 'HASH_MISMATCH'],
    ['a stream', () => editLine((line) => (line.stream += '1')), 'HASH_MISMATCH'],
    ['a version', () => editLine((line) => (line.version = 3)), 'HASH_MISMATCH'],
    ['a format', () => editLine((line) => (line.format = 2)), 'UNKNOWN_FORMAT'],
    ['a previous hash', () => editLine((line) => (line.prevHash = flip(line.prevHash))), 'HASH_MISMATCH'],
    ['a hash', () => editLine((line) => (line.eventHash = flip(line.eventHash))), 'HASH_MISMATCH'],
    ['the tenant', () => editHeader((header) => (header.tenantId = 2)), 'HASH_MISMATCH'],
    ['a signature', () => editLine((line) => (line.signature = `AAAA${line.signature.slice(4)}`)), 'BAD_SIGNATURE'],
    ['the time of sealing', () => editLine((line) => (line.sealedUs += 1)), 'BAD_SIGNATURE'],
    ['an index', () => editLine((line) => (line.index = 7)), 'GAP'],
    ['a missing line', () => lines((all) => all.toSpliced(2, 1)), 'GAP'],
    ['two lines changed over', () => lines((all) => all.with(1, all[2]!).with(2, all[1]!)), 'GAP'],
    ['a missing version', () => lines((all) => renumber(all.toSpliced(LINE, 1))), 'GAP'],
    ['a missing start', () => lines((all) => renumber(all.toSpliced(1, 1))), 'GAP'],
    ['a doubled event', () => lines((all) => renumber([...all, all.at(-1)!])), 'FORK'],
    ['a cut tail', () => lines((all) => all.slice(0, -1)), 'SIZE_BELOW_CHECKPOINT'],
    ['the size in the header', () => editHeader((header) => (header.size += 1)), 'SIZE_MISMATCH'],
    ['no checkpoint', () => editHeader((header) => (header.checkpoint = null)), 'UNPROVEN_TAIL'],
    ['an older checkpoint', () => editHeader((header) => (header.checkpoint = kept[1]!)), 'UNPROVEN_TAIL'],
    [
      'an older checkpoint and its size',
      () => editHeader((header) => Object.assign(header, { checkpoint: kept[0], size: FIRST + 2 })),
      'UNPROVEN_TAIL',
    ],
    [
      'a forged checkpoint',
      () => editHeader((header) => (header.checkpoint = forged(header.checkpoint!))),
      'BAD_SIGNATURE',
    ],
    ['a short export with a checkpoint of its own', short, null],
    [
      'the same, beside a later one that was kept',
      () => ({ ...short(), vkeys: [keys[0]!, keys[1]!], checkpoints: [kept[1]!] }),
      'SIZE_BELOW_CHECKPOINT',
    ],
    [
      'the same, beside a later one that nobody who is known signed',
      () => ({ ...short(), checkpoints: [kept[1]!] }),
      'UNKNOWN_KEY',
    ],
    ['a forged checkpoint that was kept', () => ({ checkpoints: [forged(kept[1]!)] }), 'BAD_CHECKPOINT'],
    [
      "another log's checkpoint that was kept",
      () => ({ checkpoints: [kept[0]!.replaceAll(`${ORIGIN}/1`, `${ORIGIN}/2`)] }),
      'UNKNOWN_KEY',
    ],
    ['nothing at all', () => ({ lines: [''] }), 'MALFORMED'],
    ['other JSON', () => ({ lines: ['{}'] }), 'MALFORMED'],
    [
      'another format',
      () => editHeader((header) => ((header as { export: string }).export = 'waybill-audit-export/v2')),
      'UNKNOWN_FORMAT',
    ],
    ['a line cut in two', () => lines((all) => [...all.slice(0, -1), all.at(-1)!.slice(0, 100)]), 'MALFORMED'],
    ['no end of the last line', () => ({ end: '' }), 'MALFORMED'],
    ['line ends of two characters', () => lines((all) => all.map((line) => `${line}\r`)), 'MALFORMED'],
    ['an unknown member', () => lines((all) => all.with(LINE, all[LINE]!.replace('{', '{"more":1,'))), 'MALFORMED'],
    ...LINE_MEMBERS.flatMap((member): Tampered[] => {
      const pair = (line: string): string => {
        const { [member]: value } = JSON.parse(line) as ExportLine;
        return `"${member}":${JSON.stringify(value)}`;
      };
      const change = (make: (found: string, line: string) => string) => () =>
        lines((all) => all.with(LINE, make(pair(all[LINE]!), all[LINE]!)));
      return [
        [`${member} twice`, change((found, line) => line.replace(found, `${found},${found}`)), 'MALFORMED'],
        [
          `${member} twice, with another value`,
          change((found, line) => line.replace(found, `"${member}":0,${found}`)),
          'MALFORMED',
        ],
        [
          `${member} left out`,
          change((found, line) => line.replace(`,${found}`, '').replace(`${found},`, '')),
          'MALFORMED',
        ],
        [`${member} as null`, change((found, line) => line.replace(found, `"${member}":null`)), 'MALFORMED'],
        [`${member} with white space`, change((found, line) => line.replace(found, ` ${found}`)), 'MALFORMED'],
        [
          `${member} under another name`,
          change((found, line) => line.replace(found, found.replace(member, `${member}_`))),
          'MALFORMED',
        ],
      ];
    }),
  ];

  it('finds the export to be worth the test: rotated twice, an erasure, several streams', () => {
    expect(intact.filter((line) => line.includes('log.key-rotated'))).toHaveLength(2);
    expect(intact.filter((line) => line.includes('customer.erased'))).toHaveLength(3);
  });

  it('call whatever was changed by the same name', async () => {
    const asked = cases.map(([name, change]) => ({ name, lines: intact, vkeys: [keys[0]!], ...change() }));
    const first: Said[] = [];
    for (const one of asked) first.push(await askFirst(one));
    const second = await askSecond(asked);
    const expected = cases.map(([name, , code]) => ({ name, code }));
    expect(cases.map(([name], at) => ({ name, code: first[at]?.code }))).toEqual(expected);
    expect(cases.map(([name], at) => ({ name, code: second[at]?.code }))).toEqual(expected);
    for (const [at, { verdict, root }] of first.entries()) {
      expect(second[at]?.verdict).toBe(verdict);
      if (verdict === 'intact') expect(second[at]?.root).toBe(root);
    }
  });

  it('read no line that is longer than 16 MiB', async () => {
    const body = 'x'.repeat(16 * 1024 * 1024);
    const one = { name: 'long', vkeys: [keys[0]!], ...editLine((line) => (line.body = body)) } as VerifierCase;
    const [second] = await askSecond([one]);
    expect([await askFirst(one), second]).toMatchObject(
      Array.from({ length: 2 }, () => ({ verdict: 'unreadable', code: 'MALFORMED', line: LINE + 1 })),
    );
  });

  it("hold another log's checkpoint to be no word on this one, also where no signature is checked", async () => {
    const foreign = kept[0]!.replaceAll(`${ORIGIN}/1`, `${ORIGIN}/2`);
    const trust = { trusted: [parseTrustedKey(keys[0]!)], checkpoints: [foreign], checkSignatures: false };
    const { fault } = await verifyExport(Readable.from([Buffer.from(`${intact.join('\n')}\n`)]), trust);
    expect(fault?.code).toBe('UNKNOWN_KEY');
  });

  it('leave with an exit code that says what was found: the second one as it is called', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'waybill-verifiers-'));
    const run = async (text: string, vkey: string): Promise<unknown> => {
      await writeFile(join(folder, 'log.ndjson'), text);
      await writeFile(join(folder, 'kept'), kept[0]!);
      const options = [join(folder, 'log.ndjson'), '--vkey', vkey, '--checkpoint', join(folder, 'kept')];
      return new Promise((resolve) => {
        const env = { ...process.env, PYTHONDONTWRITEBYTECODE: '1' };
        execFile('python3', [SECOND_VERIFIER, ...options], { env }, (error) => resolve(error?.code ?? 0));
      });
    };
    try {
      const text = `${intact.join('\n')}\n`;
      expect(await run(text, keys[0]!)).toBe(0);
      expect(await run(text.replace('order.created', 'order.deleted'), keys[0]!)).toBe(1);
      expect(await run(text, textOf(verifierKeyOf(generateSigningKey())))).toBe(2);
      expect(await run(text.slice(0, -1), keys[0]!)).toBe(2);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});
