import { isUtf8 } from 'node:buffer';
import { isNoteName } from '../format/signed-note.js';

/** First line of an export. */
export interface ExportHeader {
  export: typeof EXPORT_FORMAT;
  origin: string;
  tenantId: number;
  /** Leaves that follow, one a line. */
  size: number;
  /** The signed note of that size; null for an empty log. */
  checkpoint: string | null;
}

export const EXPORT_FORMAT = 'waybill-audit-export/v1';

/** Every other line. */
export interface ExportLine {
  index: number;
  stream: string;
  version: number;
  eventId: string;
  type: string;
  actor: string;
  occurredUs: number;
  body: string;
  /** Hex. */
  prevHash: string;
  /** Hex. */
  eventHash: string;
  format: number;
  /** When it was signed, in microseconds since 1970-01-01T00:00:00Z. */
  sealedUs: number;
  /** Base64. */
  signature: string;
}

export type UnreadableCode = 'MALFORMED' | 'UNKNOWN_FORMAT';

/** The file isn't an export as the format has it: nothing can be said of its events. */
export class UnreadableExport extends Error {
  override readonly name = 'UnreadableExport';

  /** @param line from 1; undefined where it isn't about one */
  constructor(
    readonly code: UnreadableCode,
    readonly detail: string,
    readonly line?: number,
  ) {
    super(line === undefined ? detail : `line ${line}: ${detail}`);
  }
}

export const LINE_MEMBERS = [
  'index',
  'stream',
  'version',
  'eventId',
  'type',
  'actor',
  'occurredUs',
  'body',
  'prevHash',
  'eventHash',
  'format',
  'sealedUs',
  'signature',
] as const satisfies readonly (keyof ExportLine)[];

const HEADER_MEMBERS = ['export', 'origin', 'tenantId', 'size', 'checkpoint'];

/** @throws UnreadableExport */
export function parseHeader(line: Buffer): ExportHeader {
  const header = parseObject(line) as Partial<ExportHeader> | null;
  const name: unknown = header?.export;
  if (typeof name === 'string' && name !== EXPORT_FORMAT)
    throw new UnreadableExport('UNKNOWN_FORMAT', `the export is a ${JSON.stringify(name)}, not a ${EXPORT_FORMAT}`, 1);
  const { origin, tenantId, size, checkpoint } = header ?? {};
  const isSound =
    Object.keys(header ?? {}).join() === HEADER_MEMBERS.join() &&
    JSON.stringify(header) === line.toString() &&
    typeof origin === 'string' &&
    isNoteName(origin) &&
    isCount(tenantId) &&
    tenantId > 0 &&
    isCount(size) &&
    (checkpoint === null || (typeof checkpoint === 'string' && !/\p{Cs}/u.test(checkpoint)));
  if (!isSound)
    throw new UnreadableExport('MALFORMED', `not the header of an export${explain(line, HEADER_MEMBERS)}`, 1);
  return header as ExportHeader;
}

/** @param number of the line, from 1 */
export function malformedLine(line: Buffer, number: number): UnreadableExport {
  return new UnreadableExport('MALFORMED', `not an event${explain(line, LINE_MEMBERS)}`, number);
}

/** What is wrong with a line, for a person: it was found to be wrong already. */
function explain(line: Buffer, members: readonly string[]): string {
  if (!isUtf8(line)) return ': it is not UTF-8';
  const value = parseObject(line);
  if (!value) return ': it is not a JSON object';
  const found = Object.keys(value);
  const missing = members.filter((name) => !found.includes(name));
  const unknown = found.filter((name) => !members.includes(name));
  if (missing.length > 0) return `: it lacks ${missing.join(', ')}`;
  if (unknown.length > 0) return `: nothing is known of ${unknown.map((name) => JSON.stringify(name)).join(', ')}`;
  if (found.join() !== members.join()) return `: its members are not in the order ${members.join(', ')}`;
  const [text, written] = [line.toString(), JSON.stringify(value)];
  if (text === written) return ': a value is not of its kind, or not written as the format has it';
  let at = 0;
  while (text[at] === written[at]) at += 1;
  return `: from character ${at + 1} on it is not written in the one way, as with a member that is there twice, white space, or 2.0`;
}

function parseObject(line: Buffer): object | null {
  if (!isUtf8(line)) return null;
  try {
    const value: unknown = JSON.parse(line.toString());
    return typeof value === 'object' && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
