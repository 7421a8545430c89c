import * as bytes from './bytes.mjs';
import { Log, ORDER_A, ORIGIN } from './log.mjs';

const BODY = '{"table": "orders", "snapshot": {"total": 1}}';
const UNKNOWN = { verdict: 'unverifiable', code: 'UNKNOWN_KEY' };
const FORGED = { verdict: 'unverifiable', code: 'BAD_CHECKPOINT' };

/** The export's own checkpoint, and those that somebody kept. */
export function checkpointCases({ lines, log, first, second, kept, abandoned, vkeys }) {
  const own = log.checkpoint();
  const [early, rotation, late] = kept;
  const header = (changes) => ({ lines: lines.with(0, JSON.stringify({ ...JSON.parse(lines[0]), ...changes })) });
  const tail = { verdict: 'unverifiable', code: 'UNPROVEN_TAIL' };
  const stranger = bytes.keyOf(Buffer.alloc(32, 9));
  const badSignature = (note) =>
    note.replace(/(\S{40})(\S{4})(\S*\n)$/, (_, head, part, rest) => head + (part === 'AAAA' ? 'BBBB' : 'AAAA') + rest);
  const badRoot = (note) => {
    const [origin, size, root, ...rest] = note.split('\n');
    return [origin, size, (root.startsWith('A') ? 'B' : 'A') + root.slice(1), ...rest].join('\n');
  };
  const twoLeaves = new Log(first).start().add(ORDER_A, 'order.created', BODY);
  const otherLeaves = new Log(first).start().add(ORDER_A, 'order.created', `${BODY} `);
  const small = { vkeys: [vkeys.first] };
  const line = (note) => note.split('\n\n')[1];
  const withLines = (note, more) => `${note.split('\n\n')[0]}\n\n${more}`;
  const malformed = (name, checkpoint) => ({
    name: `in the header, ${name}`,
    ...header({ checkpoint }),
    verdict: 'unreadable',
    code: 'MALFORMED',
    line: 1,
  });
  const keptMalformed = (name, note) => ({
    name: `kept, ${name}`,
    checkpoints: [note],
    verdict: 'unreadable',
    code: 'MALFORMED',
  });
  const notes = [
    ['nothing', ''],
    ['something else', 'nothing'],
    ['no signature', withLines(own, '')],
    ['no end', own.slice(0, -1)],
    ['a line end of two characters', own.replaceAll('\n', '\r\n')],
    ['a hyphen instead of a dash', own.replace('—', '-')],
    ['two spaces', own.replace('— ', '—  ')],
    ['junk in base64', own.replace(/.{4}\n$/, '!!!!\n')],
    ['a signature without its key id', withLines(own, `— ${log.origin} AAAA\n`)],
    ['size 0', own.replace('\n8\n', '\n0\n')],
    ['a size with a leading zero', own.replace('\n8\n', '\n08\n')],
    ['a size with a sign', own.replace('\n8\n', '\n+8\n')],
    ['a size of 2^53', own.replace('\n8\n', '\n9007199254740992\n')],
    ['a root of 31 bytes', own.replace(/\n8\n.*\n/, `\n8\n${Buffer.alloc(31).toString('base64')}\n`)],
    ['no root', own.replace(/\n8\n.*\n/, '\n8\n')],
    ['an empty line in its text', own.replace(/^/, 'x\n\n')],
    ['a control character', own.replace('audit', 'au\u0007dit')],
    ['101 signatures', withLines(own, line(own).repeat(101))],
  ];
  return [
    ...notes.map(([name, note]) => malformed(name, note)),
    ...notes.map(([name, note]) => keptMalformed(name, note)),

    { name: 'no checkpoint', ...header({ checkpoint: null }), ...tail, index: 0 },
    {
      name: 'an older checkpoint before more leaves',
      ...header({ checkpoint: late }),
      vkeys: [vkeys.second],
      ...tail,
      index: 6,
    },
    {
      name: 'an older checkpoint before more leaves, and its size in the header',
      ...header({ checkpoint: late, size: 6 }),
      vkeys: [vkeys.second],
      ...tail,
      index: 6,
    },
    { name: 'a header size below the leaves', ...header({ size: 7 }), verdict: 'tampered', code: 'SIZE_MISMATCH' },
    { name: 'a header size above the leaves', ...header({ size: 9 }), verdict: 'tampered', code: 'SIZE_MISMATCH' },
    { name: 'a cut tail', lines: lines.slice(0, -1), verdict: 'tampered', code: 'SIZE_BELOW_CHECKPOINT' },
    {
      name: 'a cut tail, and its size in the header',
      lines: header({ size: 7 }).lines.slice(0, -1),
      verdict: 'tampered',
      code: 'SIZE_BELOW_CHECKPOINT',
    },
    { name: 'all leaves cut', lines: lines.slice(0, 1), verdict: 'tampered', code: 'SIZE_BELOW_CHECKPOINT' },
    {
      name: 'an empty log: nobody vouches for it',
      lines: [JSON.stringify({ ...JSON.parse(lines[0]), size: 0, checkpoint: null })],
      ...UNKNOWN,
    },
    {
      name: 'an empty log, and a kept checkpoint',
      lines: [JSON.stringify({ ...JSON.parse(lines[0]), size: 0, checkpoint: null })],
      checkpoints: [own],
      verdict: 'tampered',
      code: 'SIZE_BELOW_CHECKPOINT',
    },
    {
      name: 'a short export with a checkpoint of its own: intact as far as it goes',
      lines: twoLeaves.export(),
      ...small,
      verdict: 'intact',
      code: null,
    },

    {
      name: 'a checkpoint with a wrong signature',
      ...header({ checkpoint: badSignature(own) }),
      verdict: 'tampered',
      code: 'BAD_SIGNATURE',
    },
    {
      name: 'a checkpoint with another root than was signed',
      ...header({ checkpoint: badRoot(own) }),
      verdict: 'tampered',
      code: 'BAD_SIGNATURE',
    },
    {
      name: 'a checkpoint of other leaves, rightly signed',
      lines: twoLeaves.export({ checkpoint: otherLeaves.checkpoint() }),
      ...small,
      verdict: 'tampered',
      code: 'ROOT_MISMATCH',
    },
    {
      name: 'a checkpoint that nobody known signed',
      ...header({ checkpoint: bytes.note(log.origin, 8, log.root(), [[log.origin, stranger]]) }),
      ...UNKNOWN,
    },
    {
      name: 'a checkpoint signed by the event key',
      ...header({ checkpoint: bytes.note(log.origin, 8, log.root(), [[log.origin, second.events]]) }),
      ...UNKNOWN,
    },
    {
      name: 'a checkpoint signed by the key before the rotation',
      ...header({ checkpoint: bytes.note(log.origin, 8, log.root(), [[log.origin, first.checkpoints]]) }),
      ...UNKNOWN,
    },
    {
      name: 'a checkpoint under the name before the break',
      ...header({ checkpoint: bytes.note(ORIGIN, 8, log.root(), [[ORIGIN, second.checkpoints]]) }),
      ...UNKNOWN,
    },
    { name: 'a header with the name before the break', ...header({ origin: ORIGIN }), ...UNKNOWN },
    {
      name: 'a signature by somebody else besides: passed over',
      ...header({
        checkpoint: withLines(own, `— witness.example.com/w ${Buffer.alloc(76, 4).toString('base64')}\n${line(own)}`),
      }),
      verdict: 'intact',
      code: null,
    },
    {
      name: 'a second signature by the same key, a wrong one',
      ...header({ checkpoint: withLines(own, line(own) + line(badSignature(own))) }),
      verdict: 'tampered',
      code: 'BAD_SIGNATURE',
    },
    {
      name: 'another line in the text of a checkpoint: passed over',
      ...header({ checkpoint: extended(log, second) }),
      verdict: 'intact',
      code: null,
    },

    {
      name: 'all kept checkpoints met, whoever signed them',
      checkpoints: kept,
      vkeys: [vkeys.first, vkeys.resumed],
      verdict: 'intact',
      code: null,
    },
    {
      name: 'kept checkpoints that the log itself vouches for',
      checkpoints: kept,
      vkeys: [vkeys.first],
      verdict: 'intact',
      code: null,
    },
    {
      name: 'a kept checkpoint with a wrong signature accuses nobody',
      checkpoints: [badSignature(early)],
      vkeys: [vkeys.first],
      ...FORGED,
    },
    {
      name: 'a kept checkpoint with another root than was signed accuses nobody',
      checkpoints: [badRoot(early)],
      vkeys: [vkeys.first],
      ...FORGED,
    },
    {
      name: 'the same, by a key that only the log vouches for',
      checkpoints: [badRoot(early)],
      vkeys: [vkeys.resumed],
      ...FORGED,
    },
    {
      name: 'a kept checkpoint that claims more leaves than it was signed for',
      checkpoints: [own.replace('\n8\n', '\n9\n')],
      ...FORGED,
    },
    {
      name: 'a kept checkpoint of more leaves by somebody else',
      checkpoints: [bytes.note(log.origin, 9, log.root(), [[log.origin, stranger]])],
      ...UNKNOWN,
    },
    {
      name: 'a kept checkpoint by somebody else',
      checkpoints: [bytes.note(ORIGIN, 3, log.root(3), [[ORIGIN, stranger]])],
      ...UNKNOWN,
    },
    {
      name: 'a kept checkpoint of more leaves than there are',
      lines: twoLeaves.export(),
      ...small,
      checkpoints: [early],
      verdict: 'tampered',
      code: 'SIZE_BELOW_CHECKPOINT',
    },
    {
      name: 'a kept checkpoint of other leaves',
      lines: otherLeaves.export(),
      ...small,
      checkpoints: [twoLeaves.checkpoint()],
      verdict: 'tampered',
      code: 'INCONSISTENT',
    },
    {
      name: 'a kept checkpoint and the own one of other leaves: the kept one is looked at first',
      lines: otherLeaves.export({ checkpoint: twoLeaves.checkpoint() }),
      ...small,
      checkpoints: [twoLeaves.checkpoint()],
      verdict: 'tampered',
      code: 'INCONSISTENT',
    },
    {
      name: 'two kept checkpoints of more leaves: the smaller one is looked at first',
      checkpoints: [
        bytes.note(log.origin, 10, log.root(), [[log.origin, second.checkpoints]]),
        bytes.note(log.origin, 9, log.root(), [[log.origin, stranger]]),
      ],
      ...UNKNOWN,
    },
    {
      name: 'a kept checkpoint of another log',
      checkpoints: [
        bytes.note('audit.example.com/waybill/2', 3, log.root(3), [['audit.example.com/waybill/2', first.checkpoints]]),
      ],
      vkeys: [vkeys.first, bytes.vkey('audit.example.com/waybill/2', first.checkpoints)],
      ...UNKNOWN,
    },
    {
      name: 'a kept checkpoint of what a break left behind',
      checkpoints: [abandoned],
      verdict: 'tampered',
      code: 'INCONSISTENT',
    },
    { name: 'a forged one of what a break left behind', checkpoints: [badRoot(abandoned)], ...FORGED },
    {
      name: 'kept checkpoints of both sides of a rotation',
      checkpoints: [early, rotation],
      vkeys: [vkeys.second],
      verdict: 'intact',
      code: null,
    },
  ];
}

/** A checkpoint with a line that this format doesn't know. */
function extended(log, { checkpoints }) {
  const body = `${log.origin}\n8\n${log.root().toString('base64')}\nmore\n`;
  return `${body}\n${bytes.signatureLine(body, log.origin, checkpoints)}`;
}
