import * as bytes from './bytes.mjs';
import { beyondP, TORSION } from './curve.mjs';
import { Log, ORDER_A, ORIGIN } from './log.mjs';

const UNKNOWN = { verdict: 'unverifiable', code: 'UNKNOWN_KEY' };
const MALFORMED = { verdict: 'unreadable', code: 'MALFORMED' };
const INTACT = { verdict: 'intact', code: null };

/** The keys that a verifier is given. */
export function keyCases({ first, second, vkeys, log, kept }) {
  const stranger = bytes.keyOf(Buffer.alloc(32, 9));
  /** What a thief of the retired key can do: go on as if it had never been given up. */
  const stolen = new Log(first).start();
  for (let count = 0; count < 6; count += 1) stolen.add(ORDER_A, 'order.updated', '{"by": "a thief"}');
  const forged = { lines: stolen.export() };
  const vkey = vkeys.first;
  return [
    { name: 'the first key of a log', vkeys: [vkeys.first], ...INTACT },
    { name: 'the key after a rotation', vkeys: [vkeys.second], ...INTACT },
    { name: 'the key under the name after a break', vkeys: [vkeys.resumed], ...INTACT },
    { name: 'one of several keys is enough', vkeys: [bytes.vkey(ORIGIN, stranger), vkeys.second], ...INTACT },
    { name: 'a key that is not one of the log', vkeys: [bytes.vkey(ORIGIN, stranger)], ...UNKNOWN },
    {
      name: 'the right key with another name',
      vkeys: [bytes.vkey('audit.example.com/waybill/2', first.checkpoints)],
      ...UNKNOWN,
    },
    { name: 'the event key', vkeys: [bytes.vkey(ORIGIN, first.events)], ...UNKNOWN },
    { name: 'a retired key up to the last size that it signed', vkeys: [`${vkey}@4`], ...INTACT },
    { name: 'a retired key up to less than it signed', vkeys: [`${vkey}@3`], ...UNKNOWN },
    { name: 'a stolen retired key that is still trusted', ...forged, vkeys: [vkey], ...INTACT },
    { name: 'a stolen retired key that is trusted as far as it signed', ...forged, vkeys: [`${vkey}@4`], ...UNKNOWN },
    {
      name: 'the same, and a kept checkpoint by it of more',
      vkeys: [vkeys.resumed, `${vkey}@4`],
      checkpoints: [stolen.checkpoint(5)],
      ...UNKNOWN,
    },
    {
      name: 'a kept checkpoint by a retired key as far as it signed',
      vkeys: [`${vkey}@4`],
      checkpoints: [kept[1]],
      ...INTACT,
    },
    {
      name: 'a kept checkpoint by it of more, where it is still trusted',
      vkeys: [vkeys.resumed, vkey],
      checkpoints: [stolen.checkpoint(5)],
      verdict: 'tampered',
      code: 'INCONSISTENT',
    },
    { name: 'the present key up to more than there is', vkeys: [`${vkeys.resumed}@1000`], ...INTACT },
    { name: 'no verifier key', vkeys: ['nothing'], ...MALFORMED },
    { name: 'a verifier key with another id', vkeys: [vkey.replace(/\+[0-9a-f]{8}\+/, '+00000000+')], ...MALFORMED },
    {
      name: 'a verifier key with its id in upper case',
      vkeys: [vkey.replace(/\+([0-9a-f]{8})\+/, (id) => id.toUpperCase())],
      ...MALFORMED,
    },
    {
      name: 'a verifier key of another algorithm',
      vkeys: [otherAlgorithm(log.origin, first.checkpoints)],
      ...MALFORMED,
    },
    { name: 'a verifier key with junk behind', vkeys: [`${vkey} `], ...MALFORMED },
    { name: 'a verifier key with a limit that is no number', vkeys: [`${vkey}@x`], ...MALFORMED },
    { name: 'a verifier key of order 8', vkeys: [bytes.vkey(ORIGIN, { publicKey: TORSION })], ...MALFORMED },
    {
      name: 'a verifier key of order 1',
      vkeys: [bytes.vkey(ORIGIN, { publicKey: Buffer.from(`01${'00'.repeat(31)}`, 'hex') })],
      ...MALFORMED,
    },
    {
      name: 'a verifier key that is not below p',
      vkeys: [bytes.vkey(ORIGIN, { publicKey: beyondP(3n) })],
      ...MALFORMED,
    },
    {
      name: 'the second key of the log, trusted for less than it signed, and the first one',
      vkeys: [`${vkeys.second}@5`, `${vkeys.first}@4`],
      ...INTACT,
    },
    {
      name: 'keys after the rotation, one trusted for less',
      vkeys: [`${bytes.vkey(ORIGIN, second.checkpoints)}@5`],
      ...UNKNOWN,
    },
  ];
}

function otherAlgorithm(name, { publicKey }) {
  const key = Buffer.concat([Buffer.from([4]), publicKey]);
  const id = bytes.sha256(bytes.text(`${name}\n`), key).subarray(0, 4);
  return `${name}+${id.toString('hex')}+${key.toString('base64')}`;
}
