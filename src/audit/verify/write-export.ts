import type { ExportHeader, ExportLine } from './export-format.js';

/** Where an export comes from. Leaves never change, so pages may be read one by one, with nothing held between. */
export interface ExportSource {
  header: ExportHeader;
  page(afterIndex: number, limit: number): Promise<ExportLine[]>;
}

/** Most events in memory at once. */
const PAGE = 200;

/** The lines of an export, a page in a chunk. The next page is read when the last one was taken. */
export async function* writeExport({ header, page }: ExportSource): AsyncGenerator<string> {
  yield `${JSON.stringify(header)}\n`;
  for (let index = 0; index < header.size;) {
    const lines = await page(index - 1, Math.min(PAGE, header.size - index));
    if (lines.length === 0) throw new Error(`the log ends at ${index}, before its checkpoint of ${header.size}`);
    yield lines.map((line) => `${JSON.stringify(exportLine(line))}\n`).join('');
    index += lines.length;
  }
}

function exportLine(line: ExportLine): ExportLine {
  const { index, stream, version, eventId, type, actor, occurredUs, body, prevHash, eventHash, format } = line;
  const { sealedUs, signature } = line;
  return {
    index,
    stream,
    version,
    eventId,
    type,
    actor,
    occurredUs,
    body,
    prevHash,
    eventHash,
    format,
    sealedUs,
    signature,
  };
}
