import * as bytes from './bytes.mjs';
import { chainCases } from './chain-cases.mjs';
import { checkpointCases } from './checkpoint-cases.mjs';
import { keyCases } from './key-cases.mjs';
import { Log, ORDER_A, ORDER_B, ORIGIN } from './log.mjs';
import { readingCases } from './reading-cases.mjs';

/** The log that most cases are about: two orders, a rotation, an erasure, a restore. */
export function exampleLog() {
  const [first, second] = [Buffer.from([...Array(32).keys()]), Buffer.alloc(32, 0xab)].map((seed) =>
    bytes.keysOf(seed, 1),
  );
  const log = new Log(first);
  log.start();
  log.add(
    ORDER_A,
    'order.created',
    '{"table": "orders", "snapshot": {"note": "Grün, 日本, \u{1F375}", "total": 3582}}',
  );
  log.add(ORDER_A, 'order.confirmed', '{"changes": {"status": {"new": "confirmed", "old": "pending"}}, "tab": "\t"}');
  const kept = [log.checkpoint()];
  log.rotate(second);
  kept.push(log.checkpoint(log.size, ORIGIN, [first, second]));
  log.add(ORDER_B, 'order.created', '{"table": "orders", "snapshot": {"total": 100}}');
  log.add(ORDER_A, 'customer.erased', '{"table": "orders", "snapshot": {"total": 3582, "contacts": null}}');
  kept.push(log.checkpoint());
  // What the database had sealed and published before it was restored to the state of six leaves.
  const lost = new Log(second);
  lost.leaves = [...log.leaves];
  lost.add(ORDER_B, 'order.canceled', '{"table": "orders", "reason": "lost"}', { version: 2 });
  const abandoned = lost.checkpoint();
  log.resume(`${ORIGIN}/2`, abandoned);
  log.add(ORDER_B, 'order.confirmed', '{"table": "orders", "snapshot": {"total": 100}}');
  kept.push(log.checkpoint());
  const vkeys = {
    first: bytes.vkey(ORIGIN, first.checkpoints),
    second: bytes.vkey(ORIGIN, second.checkpoints),
    resumed: bytes.vkey(`${ORIGIN}/2`, second.checkpoints),
  };
  return { log, first, second, kept, abandoned, vkeys, lines: log.export() };
}

/**
 * What verifiers must say of which export. A line that is a number stands for that line of `base`; a text for itself; `base64` for
 * bytes that are no text. Each line ends in a newline, unless `end` says otherwise.
 */
export function vectors() {
  const example = exampleLog();
  const known = new Map(example.lines.map((line, at) => [line, at]));
  const cases = [readingCases, chainCases, checkpointCases, keyCases].flatMap((make) => make(example));
  return {
    base: example.lines,
    cases: cases.map(({ lines = example.lines, vkeys = [example.vkeys.resumed], ...rest }) => ({
      ...rest,
      lines: lines.map((line) => known.get(line) ?? line),
      vkeys,
    })),
  };
}
