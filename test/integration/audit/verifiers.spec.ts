import { execFile } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { generateSigningKey } from '../../../src/audit/format/signing-key.js';
import { type NoteVerifier, parseVerifierKey, verifierKeyText } from '../../../src/audit/format/signed-note.js';
import { exportSource } from '../../../src/audit/log/export-source.js';
import { rotateKey } from '../../../src/audit/log/rotate-key.js';
import { type ExportHeader, type ExportLine, UnreadableExport } from '../../../src/audit/verify/export-format.js';
import type { VerificationResult } from '../../../src/audit/verify/fault.js';
import { verifyExport } from '../../../src/audit/verify/verify-export.js';
import { writeExport } from '../../../src/audit/verify/write-export.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { keysOf, logKeysOf, ORIGIN, type Sealing, startSealing, verifierKeyOf } from '../../support/audit.js';
import { type Order, orderBody } from '../../support/builders.js';

const ROOT = join(import.meta.dirname, '../../..');

interface Outcome {
  exit: number;
  code: string | null;
}

/** What our verifier and the one in Python, which was written from the document, say of an export. */
describe('two verifiers of one format', () => {
  let service: TestApp;
  let sealing: Sealing;
  let folder: string;
  const keys: string[] = [];
  const kept: string[] = [];
  let intact: string[];
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'waybill-verifiers-'));
    service = await startTestApp();
    sealing = await startSealing(service.database);
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
    await rm(folder, { recursive: true, force: true });
  });

  const textOf = ({ name, rawPublicKey }: NoteVerifier): string => verifierKeyText(name, rawPublicKey);
  const exported = async (): Promise<string[]> => {
    const source = await exportSource(sealing.pool, 1);
    let text = '';
    for await (const chunk of writeExport(source!)) text += chunk;
    return text.trimEnd().split('\n');
  };
  /** The export with one line changed. */
  const edit = <T extends object>(at: number, change: (line: T) => void): string[] => {
    const line = JSON.parse(intact[at]!) as T;
    change(line);
    return intact.with(at, JSON.stringify(line));
  };
  const editLine = (at: number, change: (line: ExportLine) => void) => edit<ExportLine>(at, change);
  const editHeader = (change: (header: ExportHeader) => void) => edit<ExportHeader>(0, change);
  const flip = (text: string): string => (text.startsWith('0') ? '1' : '0') + text.slice(1);

  it('finds the export to be worth the test: rotated twice, an erasure, several streams', () => {
    expect(intact.filter((line) => line.includes('log.key-rotated'))).toHaveLength(2);
    expect(intact.filter((line) => line.includes('customer.erased'))).toHaveLength(3);
  });

  it.each([0, 1, 2])('agree that it is intact, whichever of its keys is known: %i', async (key) => {
    await expectBoth(intact, { keys: [keys[key]!], checkpoints: kept }, { exit: 0, code: null });
  });

  it('agree that nobody can say anything of it with a key that is not its own', async () => {
    const stranger = textOf(verifierKeyOf(generateSigningKey()));
    await expectBoth(intact, { keys: [stranger] }, { exit: 2, code: 'UNKNOWN_KEY' });
    const otherName = verifierKeyText(`${ORIGIN}/2`, verifierKeyOf(sealing.pem).rawPublicKey);
    await expectBoth(intact, { keys: [otherName] }, { exit: 2, code: 'UNKNOWN_KEY' });
  });

  it.each<[string, () => string[], string]>([
    ['a body', () => editLine(2, (line) => (line.body += ' ')), 'HASH_MISMATCH'],
    ['a type', () => editLine(2, (line) => (line.type = 'order.shipped')), 'HASH_MISMATCH'],
    ['an actor', () => editLine(2, (line) => (line.actor = flip(line.actor))), 'HASH_MISMATCH'],
    ['an event id', () => editLine(2, (line) => (line.eventId = flip(line.eventId))), 'HASH_MISMATCH'],
    ['a time', () => editLine(2, (line) => (line.occurredUs += 1)), 'HASH_MISMATCH'],
    ['a stream', () => editLine(2, (line) => (line.stream += '1')), 'HASH_MISMATCH'],
    ['a version', () => editLine(2, (line) => (line.version = 3)), 'HASH_MISMATCH'],
    ['a format', () => editLine(2, (line) => (line.format = 2)), 'HASH_MISMATCH'],
    ['a previous hash', () => editLine(2, (line) => (line.prevHash = flip(line.prevHash))), 'HASH_MISMATCH'],
    ['a hash', () => editLine(2, (line) => (line.eventHash = flip(line.eventHash))), 'HASH_MISMATCH'],
    ['the tenant', () => editHeader((header) => (header.tenantId = 2)), 'HASH_MISMATCH'],
    ['a signature', () => editLine(2, (line) => (line.signature = `AAAA${line.signature.slice(4)}`)), 'BAD_SIGNATURE'],
    ['the time of sealing', () => editLine(2, (line) => (line.sealedUs += 1)), 'BAD_SIGNATURE'],
    ['an index', () => editLine(2, (line) => (line.index = 7)), 'GAP'],
    ['a missing line', () => intact.toSpliced(2, 1), 'GAP'],
    ['two lines changed over', () => intact.with(1, intact[2]!).with(2, intact[1]!), 'GAP'],
    ['a missing version', () => renumber(intact.toSpliced(2, 1)), 'GAP'],
    ['a missing start', () => renumber(intact.toSpliced(1, 1)), 'GAP'],
    ['a doubled event', () => renumber([...intact, intact.at(-1)!]), 'FORK'],
    ['a cut tail', () => intact.slice(0, -1), 'SIZE_BELOW_CHECKPOINT'],
    [
      'a checkpoint of its past',
      () => editHeader((header) => (header.checkpoint = forged(header.checkpoint!))),
      'ROOT_MISMATCH',
    ],
    [
      'a checkpoint that nobody signed',
      () => editHeader((header) => (header.checkpoint = unsigned(header.checkpoint!))),
      'BAD_SIGNATURE',
    ],
  ])('agree on %s', async (_, change, code) => {
    await expectBoth(change(), { keys: [keys[0]!] }, { exit: 1, code });
  });

  it('agree that an export which ends before a kept checkpoint was cut, also when it brings a checkpoint of its own', async () => {
    const short = [
      JSON.stringify({ ...(JSON.parse(intact[0]!) as ExportHeader), size: 3, checkpoint: kept[0] }),
      ...intact.slice(1, 4),
    ];
    await expectBoth(short, { keys: [keys[0]!] }, { exit: 0, code: null });
    await expectBoth(short, { keys: [keys[0]!], checkpoints: [kept[1]!] }, { exit: 1, code: 'SIZE_BELOW_CHECKPOINT' });
  });

  it('agree that a kept checkpoint of other leaves is not met', async () => {
    await expectBoth(intact, { keys: [keys[0]!], checkpoints: [forged(kept[1]!)] }, { exit: 1, code: 'INCONSISTENT' });
  });

  it("agree that another log's checkpoint has no say", async () => {
    const foreign = kept[0]!.replaceAll(`${ORIGIN}/1`, `${ORIGIN}/2`);
    await expectBoth(intact, { keys: [keys[0]!], checkpoints: [foreign] }, { exit: 2, code: 'UNKNOWN_KEY' });
    const trust = { trusted: [parseVerifierKey(keys[0]!)], checkpoints: [foreign], checkSignatures: false };
    const { fault } = await verifyExport(Readable.from([Buffer.from(intact.join('\n'))]), trust);
    expect(fault?.code).toBe('UNKNOWN_KEY');
  });

  it.each<[string, () => string[]]>([
    ['nothing', () => ['']],
    ['other JSON', () => ['{}']],
    [
      'another format',
      () => editHeader((header) => ((header as { export: string }).export = 'waybill-audit-export/v2')),
    ],
    ['a line cut in two', () => [...intact.slice(0, -1), intact.at(-1)!.slice(0, 100)]],
  ])('agree that %s cannot be read', async (_, change) => {
    await expectBoth(change(), { keys: [keys[0]!] }, { exit: 2, code: null });
  });

  it('verify the test vectors of the document', async () => {
    const document = await readFile(join(ROOT, 'docs/audit-format.md'), 'utf8');
    const [, vectors = ''] = /An export of three events:\n\n```\n(.*?)\n```/s.exec(document) ?? [];
    const lines = vectors.split('\n');
    const [, key = ''] = /Its verifier key is `([^`]+)`/.exec(document) ?? [];
    await expectBoth(lines, { keys: [key] }, { exit: 0, code: null });
  });

  function renumber([header, ...lines]: string[]): string[] {
    return [header!, ...lines.map((line, index) => JSON.stringify({ ...(JSON.parse(line) as ExportLine), index }))];
  }

  /** Another root in the same note. */
  function forged(note: string): string {
    const [origin, size, root = '', ...rest] = note.split('\n');
    return [origin, size, (root.startsWith('A') ? 'B' : 'A') + root.slice(1), ...rest].join('\n');
  }

  /** The signature of something else. */
  function unsigned(note: string): string {
    return note.replace(
      /(— \S+ \S{40})(\S{4})/u,
      (_, head: string, part: string) => head + (part === 'AAAA' ? 'BBBB' : 'AAAA'),
    );
  }

  async function expectBoth(
    lines: readonly string[],
    { keys: trusted, checkpoints = [] }: { keys: string[]; checkpoints?: string[] },
    expected: Outcome,
  ): Promise<void> {
    const file = join(folder, 'export.ndjson');
    await writeFile(file, `${lines.join('\n')}\n`);
    const options = trusted.flatMap((key) => ['--vkey', key]);
    for (const [at, note] of checkpoints.entries()) {
      await writeFile(join(folder, `kept-${at}`), note);
      options.push('--checkpoint', join(folder, `kept-${at}`));
    }
    const [own, theirs] = await Promise.all([
      ours(file, trusted, checkpoints),
      run('python3', [join(ROOT, 'test/verifier/verify.py'), file, ...options]),
    ]);
    const other = theirs.result as { code?: string; root?: string };
    expect({
      ours: { exit: own ? EXIT[own.verdict] : 2, code: own?.fault?.code ?? null },
      theirs: { exit: theirs.exit, code: other.code ?? null },
    }).toEqual({ ours: expected, theirs: expected });
    if (expected.exit === 0) expect(own?.root).toBe(other.root);
  }
});

const EXIT = { intact: 0, tampered: 1, unverifiable: 2 };

/** @returns null when the export can't be read */
async function ours(file: string, trusted: string[], checkpoints: string[]): Promise<VerificationResult | null> {
  try {
    return await verifyExport(createReadStream(file), { trusted: trusted.map(parseVerifierKey), checkpoints });
  } catch (error) {
    if (error instanceof UnreadableExport) return null;
    throw error;
  }
}

/** Runs a verifier that prints one JSON document, or nothing when it can't read the export. */
function run(command: string, options: string[]): Promise<{ exit: number; result: unknown }> {
  return new Promise((resolve, reject) => {
    execFile(
      command,
      options,
      { env: { ...process.env, NODE_OPTIONS: '--disable-warning=ExperimentalWarning' } },
      (error, stdout, stderr) => {
        if (error && typeof error.code !== 'number') return reject(new Error(stderr, { cause: error }));
        const exit = typeof error?.code === 'number' ? error.code : 0;
        resolve({ exit, result: stdout.trim() === '' ? null : JSON.parse(stdout) });
      },
    );
  });
}
