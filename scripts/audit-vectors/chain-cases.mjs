import * as bytes from './bytes.mjs';
import { beyondP, TORSION, withLargeS, withTorsion } from './curve.mjs';
import { Log, ORDER_A, ORDER_B, ORIGIN, TENANT } from './log.mjs';

const tampered = (name, code, index, change) => ({ name, ...change, verdict: 'tampered', code, index });
const BODY = '{"table": "orders", "snapshot": {"total": 1}}';

/** Events, their chain, their signatures, and what the log says of itself. */
export function chainCases({ lines, first, second, vkeys, abandoned }) {
  const at = 2;
  const line = JSON.parse(lines[at]);
  const edit = (changes, target = at) => ({
    lines: lines.with(target, JSON.stringify({ ...JSON.parse(lines[target]), ...changes })),
  });
  const flip = (hex) => (hex.startsWith('0') ? '1' : '0') + hex.slice(1);
  const renumber = (all) =>
    all.map((text, index) => (index === 0 ? text : JSON.stringify({ ...JSON.parse(text), index: index - 1 })));
  /** A log whose signatures and checkpoint are right, whatever else it is. */
  const made = (build, keys = first) => {
    const log = new Log(keys);
    build(log);
    return { lines: log.export(), vkeys: [bytes.vkey(log.origin, log.keys.checkpoints)] };
  };
  const started = (build) => made((log) => build(log.start()));
  const signedBy = (sign) => started((log) => log.add(ORDER_A, 'order.created', BODY, { sign }));
  const rotated = (other, options) => started((log) => log.rotate(second, other, options));
  const resumed = (other, options) => ({
    ...started((log) => log.add(ORDER_A, 'order.created', BODY).resume(`${ORIGIN}/2`, abandoned, other, options)),
    vkeys: [vkeys.first],
  });
  const otherKey = bytes.keyOf(Buffer.alloc(32, 9));
  const weak = { publicKey: TORSION };

  return [
    tampered('another event id', 'HASH_MISMATCH', 1, edit({ eventId: flip(line.eventId) })),
    tampered('another stream', 'HASH_MISMATCH', 1, edit({ stream: `${line.stream}1` })),
    tampered('another version', 'HASH_MISMATCH', 1, edit({ version: 3 })),
    tampered('another time', 'HASH_MISMATCH', 1, edit({ occurredUs: line.occurredUs + 1 })),
    tampered('another type', 'HASH_MISMATCH', 1, edit({ type: 'order.canceled' })),
    tampered('another actor', 'HASH_MISMATCH', 1, edit({ actor: flip(line.actor) })),
    tampered('another body', 'HASH_MISMATCH', 1, edit({ body: `${line.body} ` })),
    tampered('another hash before', 'HASH_MISMATCH', 1, edit({ prevHash: flip(line.prevHash) })),
    tampered('another hash', 'HASH_MISMATCH', 1, edit({ eventHash: flip(line.eventHash) })),
    tampered('another tenant', 'HASH_MISMATCH', 0, {
      lines: lines.with(0, lines[0].replace('"tenantId":1', '"tenantId":2')),
    }),
    tampered('another time of sealing', 'BAD_SIGNATURE', 1, edit({ sealedUs: line.sealedUs + 1 })),
    tampered('another signature', 'BAD_SIGNATURE', 1, edit({ signature: JSON.parse(lines[at + 1]).signature })),

    tampered('another index', 'GAP', 1, edit({ index: 7 })),
    tampered('an event left out', 'GAP', 1, { lines: lines.toSpliced(at, 1) }),
    tampered('two events changed over', 'GAP', 1, { lines: lines.with(at, lines[at + 1]).with(at + 1, lines[at]) }),
    tampered('the first version left out, the rest numbered anew', 'GAP', 1, {
      lines: renumber(lines.toSpliced(at, 1)),
    }),
    tampered('an event twice, the rest numbered anew', 'FORK', 2, {
      lines: renumber(lines.toSpliced(at, 0, lines[at])),
    }),
    tampered(
      'a version left out by the sealer',
      'GAP',
      2,
      started((log) => log.add(ORDER_A, 'order.created', BODY).add(ORDER_A, 'order.updated', BODY, { version: 3 })),
    ),
    tampered(
      'a version sealed twice',
      'FORK',
      2,
      started((log) =>
        log
          .add(ORDER_A, 'order.created', BODY)
          .add(ORDER_A, 'order.updated', BODY, { version: 1, prevHash: bytes.genesis(TENANT, ORDER_A) }),
      ),
    ),
    tampered(
      'a first version with something before it',
      'PREV_MISMATCH',
      1,
      started((log) => log.add(ORDER_A, 'order.created', BODY, { prevHash: bytes.genesis(TENANT, ORDER_B) })),
    ),
    tampered(
      'a version behind another one than the one before',
      'PREV_MISMATCH',
      2,
      started((log) =>
        log
          .add(ORDER_A, 'order.created', BODY)
          .add(ORDER_A, 'order.updated', BODY, { prevHash: bytes.genesis(TENANT, ORDER_A) }),
      ),
    ),

    tampered(
      'an event signed by the checkpoint key',
      'BAD_SIGNATURE',
      1,
      signedBy((message) => first.checkpoints.sign(message)),
    ),
    tampered(
      'an event signed by somebody else',
      'BAD_SIGNATURE',
      1,
      signedBy((message) => otherKey.sign(message)),
    ),
    tampered(
      'a signature of the hash without the time',
      'BAD_SIGNATURE',
      1,
      signedBy((message) => first.events.sign(message.subarray(0, -8))),
    ),
    tampered(
      "a signature whose S is not below the group's order",
      'BAD_SIGNATURE',
      1,
      signedBy((message) => withLargeS(first.events.sign(message))),
    ),
    tampered(
      'a signature that is right only times the cofactor',
      'BAD_SIGNATURE',
      1,
      signedBy((message) => withTorsion(first.events, message)),
    ),
    tampered(
      'a signature of zeros',
      'BAD_SIGNATURE',
      1,
      signedBy(() => Buffer.alloc(64)),
    ),
    tampered(
      'sealed before the event before it',
      'TIME_REVERSED',
      2,
      started((log) =>
        log
          .add(ORDER_A, 'order.created', BODY)
          .add(ORDER_A, 'order.updated', BODY, { sealedUs: 1_796_025_601_000_000 }),
      ),
    ),
    {
      name: 'sealed long after it occurred: reported, and no fault',
      ...started((log) => log.add(ORDER_A, 'order.created', BODY, { occurredUs: 1_795_000_000_000_000 })),
      verdict: 'intact',
      code: null,
      late: 1,
    },
    {
      name: 'a body that is no JSON: only those of the log itself are read',
      ...started((log) => log.add(ORDER_A, 'order.created', 'nothing')),
      verdict: 'intact',
      code: null,
    },
    {
      name: 'types and streams that nobody knows',
      ...started((log) => log.add('', '', '').add(`log/${TENANT}`, 'log.checked', '')),
      verdict: 'intact',
      code: null,
    },

    tampered(
      'a log that begins with something else',
      'GAP',
      0,
      made((log) => log.add(ORDER_A, 'order.created', BODY)),
    ),
    tampered(
      'a log that begins in the stream of another log',
      'GAP',
      0,
      made((log) =>
        log.add('log/2', 'log.started', { snapshot: { id: 1, origin: ORIGIN, ...log.names(ORIGIN, log.keys) } }),
      ),
    ),
    tampered(
      'a log that begins twice',
      'FORK',
      1,
      started((log) => log.start()),
    ),
    tampered(
      'a beginning without keys',
      'BAD_SIGNATURE',
      0,
      made((log) => log.start({ eventKey: null })),
    ),
    tampered(
      'a beginning that is no JSON',
      'BAD_SIGNATURE',
      0,
      made((log) => log.add(`log/${TENANT}`, 'log.started', 'nothing')),
    ),
    tampered(
      'a beginning whose keys have another name',
      'BAD_SIGNATURE',
      0,
      made((log) => log.start(log.names(`${ORIGIN}/2`, log.keys))),
    ),
    tampered(
      'a beginning of another tenant',
      'BAD_SIGNATURE',
      0,
      made((log) => log.start({ id: 2 })),
    ),
    tampered(
      'a beginning signed by another key than it names',
      'BAD_SIGNATURE',
      0,
      made((log) => log.start({}, { sign: (message) => otherKey.sign(message) })),
    ),
    tampered(
      'an event key of order 8',
      'BAD_SIGNATURE',
      0,
      made((log) => log.start({ eventKey: bytes.vkey(ORIGIN, weak) })),
    ),
    tampered(
      'an event key that is not below p',
      'BAD_SIGNATURE',
      0,
      made((log) => log.start({ eventKey: bytes.vkey(ORIGIN, { publicKey: beyondP(3n) }) })),
    ),

    tampered('a rotation for another size', 'BAD_SIGNATURE', 1, rotated({ size: 2 })),
    tampered('a rotation for another root', 'BAD_SIGNATURE', 1, rotated({ root: '00'.repeat(32) })),
    tampered(
      'a rotation from another checkpoint key',
      'BAD_SIGNATURE',
      1,
      rotated({ oldCheckpointKey: bytes.vkey(ORIGIN, otherKey) }),
    ),
    tampered(
      'a rotation from another event key',
      'BAD_SIGNATURE',
      1,
      rotated({ oldEventKey: bytes.vkey(ORIGIN, otherKey) }),
    ),
    tampered(
      'a rotation to keys of another name',
      'BAD_SIGNATURE',
      1,
      rotated({ newEventKey: bytes.vkey(`${ORIGIN}/2`, second.events) }),
    ),
    tampered(
      'a rotation to another key than was signed',
      'BAD_SIGNATURE',
      1,
      rotated({ newEventKey: bytes.vkey(ORIGIN, otherKey) }),
    ),
    tampered(
      "a rotation without the old key's signature",
      'BAD_SIGNATURE',
      1,
      rotated({ oldKeySignature: otherKey.sign(Buffer.from('x')).toString('base64') }),
    ),
    tampered("a rotation without the new key's signature", 'BAD_SIGNATURE', 1, rotated({ newKeySignature: '' })),
    tampered('a rotation with junk in a signature', 'BAD_SIGNATURE', 1, rotated({ newKeySignature: 'no base64' })),
    tampered(
      'a rotation that the new key signed as an event',
      'BAD_SIGNATURE',
      1,
      rotated({}, { sign: (message) => second.events.sign(message) }),
    ),
    tampered(
      'an event by the old key after the rotation',
      'BAD_SIGNATURE',
      2,
      started((log) =>
        log.rotate(second).add(ORDER_A, 'order.created', BODY, { sign: (message) => first.events.sign(message) }),
      ),
    ),

    {
      name: 'a break: reported, and no fault',
      ...resumed({}),
      vkeys: [bytes.vkey(`${ORIGIN}/2`, first.checkpoints)],
      verdict: 'intact',
      code: null,
      breaks: [2],
    },
    tampered('a break for another size', 'BAD_SIGNATURE', 2, resumed({ size: 1 })),
    tampered('a break for another root', 'BAD_SIGNATURE', 2, resumed({ root: '00'.repeat(32) })),
    tampered('a break from another origin', 'BAD_SIGNATURE', 2, resumed({ oldOrigin: `${ORIGIN}/3` })),
    tampered(
      'a break to an origin that was there before',
      'BAD_SIGNATURE',
      2,
      resumed({ origin: ORIGIN, ...new Log(first).names(ORIGIN, first) }),
    ),
    tampered(
      'a break that changes the keys',
      'BAD_SIGNATURE',
      2,
      resumed(new Log(second).names(`${ORIGIN}/2`, second)),
    ),
    tampered('a break that leaves nothing behind', 'BAD_SIGNATURE', 2, resumed({ abandoned: 'nothing' })),
  ];
}
