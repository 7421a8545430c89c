import type { Leaf } from './log-verifier.js';

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

/** The file isn't an export, or is cut off: nothing can be said of its events. */
export class UnreadableExport extends Error {
  override readonly name = 'UnreadableExport';
}

export function leafOf(line: ExportLine, tenantId: number): Leaf {
  return {
    index: line.index,
    event: { ...line, tenantId, prevHash: Buffer.from(line.prevHash, 'hex') },
    eventHash: Buffer.from(line.eventHash, 'hex'),
    sealedUs: line.sealedUs,
    signature: Buffer.from(line.signature, 'base64'),
  };
}

export function parseHeader(line: string): ExportHeader {
  const header = parseLine<ExportHeader>(line, 1);
  const isSound =
    header.export === EXPORT_FORMAT &&
    typeof header.origin === 'string' &&
    Number.isSafeInteger(header.tenantId) &&
    Number.isSafeInteger(header.size) &&
    (header.checkpoint === null || typeof header.checkpoint === 'string');
  if (!isSound) throw new UnreadableExport(`the first line is not the header of a ${EXPORT_FORMAT}`);
  return header;
}

const TEXTS = ['stream', 'eventId', 'type', 'actor', 'body', 'prevHash', 'eventHash', 'signature'] as const;
const NUMBERS = ['index', 'version', 'occurredUs', 'format', 'sealedUs'] as const;

export function parseExportLine(text: string, number: number): ExportLine {
  const line = parseLine<ExportLine>(text, number);
  const isSound =
    TEXTS.every((name) => typeof line[name] === 'string') && NUMBERS.every((name) => Number.isSafeInteger(line[name]));
  if (!isSound) throw new UnreadableExport(`line ${number} is not an event`);
  return line;
}

function parseLine<T extends object>(text: string, number: number): T {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return value as T;
  } catch (cause) {
    throw new UnreadableExport(`line ${number} is not JSON`, { cause });
  }
  throw new UnreadableExport(`line ${number} is not a JSON object`);
}
