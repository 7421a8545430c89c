import * as bytes from './bytes.mjs';
import { exampleLog } from './cases.mjs';
import { ORDER_A, ORIGIN, TENANT } from './log.mjs';

/** What a verifier comes past on its way through the export `base`, as a table of Markdown. */
export function valuesTable() {
  const { log, first, second, vkeys } = exampleLog();
  const hex = (value) => value.toString('hex');
  const rows = [
    ['verifier key', vkeys.first],
    ['public key for checkpoints', hex(first.checkpoints.publicKey)],
    ['public key for events', hex(first.events.publicKey)],
    ["genesis hash of the first order's stream", hex(bytes.genesis(TENANT, ORDER_A))],
  ];
  for (const [at, line] of log.lines.slice(0, 3).entries()) {
    const event = JSON.parse(line);
    const preimage = bytes.preimage(TENANT, { ...event, prevHash: Buffer.from(event.prevHash, 'hex') });
    rows.push(
      [`event ${at}: bytes of the preimage`, preimage.length],
      [`event ${at}: eventHash`, event.eventHash],
      [`event ${at}: leaf`, hex(log.leaves[at])],
    );
  }
  const message = bytes.rotationMessage(ORIGIN, 3, log.root(3), first, second);
  rows.push(
    ['root of 3 leaves', hex(log.root(3))],
    ['verifier key after the rotation', vkeys.second],
    ['SHA-256 of the rotation message', hex(bytes.sha256(message))],
    ['oldKeySignature', first.checkpoints.sign(message).toString('base64')],
    ['newKeySignature', second.checkpoints.sign(message).toString('base64')],
    [`root of ${log.size} leaves`, hex(log.root())],
    [
      'digest of the field `customer`, the value `{"name":"Ada"}`, the salt 07 07 … 07',
      hex(
        bytes.sha256(
          bytes.text('waybill-pii/v1\n'),
          Buffer.alloc(32, 7),
          bytes.lp('customer'),
          bytes.lp('{"name":"Ada"}'),
        ),
      ),
    ],
  );
  const cells = [['what', 'value'], ...rows.map(([what, value]) => [what, `\`${value}\``])];
  const width = [0, 1].map((column) => Math.max(...cells.map((row) => row[column].length)));
  const row = (line) => `| ${line.map((cell, column) => cell.padEnd(width[column])).join(' | ')} |`;
  const [head, ...rest] = cells.map(row);
  return [head, row(width.map((count) => '-'.repeat(count))), ...rest].join('\n');
}
