const NEWLINE = 0x0a;
/** No event is larger: a body of 250 lines and full metadata stays far below. */
const MAX_LINE = 16 * 1024 * 1024;

/** The lines of a stream of bytes. Quicker than node:readline, and a line without an end can't fill the memory. */
export async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest: Buffer[] = [];
  let held = 0;
  for await (const chunk of chunks) {
    let begin = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, begin)) {
      const last = chunk.subarray(begin, end);
      yield rest.length === 0 ? last.toString() : Buffer.concat([...rest, last]).toString();
      rest = [];
      held = 0;
      begin = end + 1;
    }
    if (begin === chunk.length) continue;
    rest.push(chunk.subarray(begin));
    held += chunk.length - begin;
    if (held > MAX_LINE) throw new RangeError(`a line is longer than ${MAX_LINE} bytes`);
  }
  if (rest.length > 0) yield Buffer.concat(rest).toString();
}
