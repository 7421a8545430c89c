import { UnreadableExport } from './export-format.js';

const NEWLINE = 0x0a;
/** Bytes of the longest line, its end included. No event is larger: a body of 250 lines and full metadata stays far below. */
const MAX_LINE = 16 * 1024 * 1024;

/**
 * The lines of a stream of bytes without their ends, as many at a time as a chunk has. Quicker than node:readline, and a line
 * without an end can't fill the memory.
 *
 * @throws UnreadableExport for a line that is too long, or that has no end
 */
export async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer[]> {
  let rest: Buffer[] = [];
  let held = 0;
  let count = 0;
  const tooLong = (): never => {
    throw new UnreadableExport('MALFORMED', `the line is longer than ${MAX_LINE} bytes`, count + 1);
  };
  for await (const chunk of chunks) {
    const lines: Buffer[] = [];
    let begin = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, begin)) {
      const last = chunk.subarray(begin, end);
      if (held + last.length >= MAX_LINE) break;
      lines.push(rest.length === 0 ? last : Buffer.concat([...rest, last]));
      rest = [];
      held = 0;
      begin = end + 1;
    }
    if (lines.length > 0) yield lines;
    count += lines.length;
    rest.push(chunk.subarray(begin));
    held += chunk.length - begin;
    if (held >= MAX_LINE) tooLong();
  }
  if (held > 0) throw new UnreadableExport('MALFORMED', 'the last line has no end: the file was cut', count + 1);
}
