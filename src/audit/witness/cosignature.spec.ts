import { describe, expect, it } from '@jest/globals';
import { createPrivateKey } from 'node:crypto';
import { checkpointText } from '../format/checkpoint.js';
import { generateSigningKey, parseSigningKey } from '../format/signing-key.js';
import { NoteError, openNote, parseNote, signNote, verifierOf } from '../format/signed-note.js';
import { cosign, cosignaturesOn, parseWitnessKey, requireDistinct, witnessKeyText } from './cosignature.js';

// The example of https://c2sp.org/tlog-cosignature; its keys are not given.
const EXAMPLE = `example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==
`;
// A key of a running witness, as the reference implementation's tests have it.
const REMORA = 'remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2';

function witness(name = 'witness.example/w1') {
  const { privateKey, publicKey } = parseSigningKey(generateSigningKey());
  const signer = { name, privateKey, rawPublicKey: publicKey };
  return { signer, key: parseWitnessKey(witnessKeyText(name, publicKey)) };
}

const text = checkpointText({ origin: 'example.com/log', size: 7, root: Buffer.alloc(32, 1) });
const log = parseSigningKey(generateSigningKey());
const note = signNote(text, [{ name: 'example.com/log', privateKey: log.privateKey, rawPublicKey: log.publicKey }]);

describe('keys of witnesses', () => {
  it('are read and written as the specification has them', () => {
    const { name, rawPublicKey } = parseWitnessKey(REMORA);
    expect(name).toBe('remora.n621.de');
    expect(witnessKeyText(name, rawPublicKey)).toBe(REMORA);
  });

  it.each([
    'TEST+7997405c+AQcC+FTVKf0jlTdHDY3rbevmnKxxPjigCXlVtGe6RIr6',
    'bananas.sigstore.dev+12344556',
    'rekor.sigstore.dev+12345678+THIS_IS_NOT_BASE64!',
    'rekor.sigstore.dev+12345678+AwEB',
    REMORA.replace('da77ade7', '00000000'),
    REMORA.replace('da77ade7', 'DA77ADE7'),
  ])('are refused when they are none: %s', (key) => {
    expect(() => parseWitnessKey(key)).toThrow(NoteError);
  });

  it('count once, whatever their names', () => {
    const one = witness();
    const again = parseWitnessKey(witnessKeyText('other.example', one.signer.rawPublicKey));
    expect(() => requireDistinct([one.key, again])).toThrow('the same key');
    expect(() => requireDistinct([one.key, witness().key])).toThrow('the same name');
    expect(() => requireDistinct([one.key, witness('w2').key])).not.toThrow();
  });
});

describe('cosignatures', () => {
  it("have the time where the specification's example has it", () => {
    const [, { name, signature }] = parseNote(EXAMPLE).signatures as [unknown, { name: string; signature: Buffer }];
    expect(name).toBe('witness.example.com/w1');
    expect(signature.readBigUInt64BE(0)).toBe(1_679_315_147n);
    expect(signature).toHaveLength(72);
  });

  it('are over the lines that the specification gives, byte for byte', () => {
    const seed = Buffer.from('302e020100300506032b657004220420' + '07'.repeat(32), 'hex');
    const privateKey = createPrivateKey({ key: seed, format: 'der', type: 'pkcs8' });
    const rawPublicKey = Buffer.from('ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c', 'hex');
    const signer = { name: 'w', privateKey, rawPublicKey };
    const body = parseNote(EXAMPLE).text;
    const [signature] = parseNote(body + '\n' + cosign(body, signer, 1_679_315_147)).signatures;
    const message = `cosignature/v1\ntime 1679315147\n${body}`;
    const plain = parseNote(signNote(message, [signer])).signatures[0]!;
    expect(signature?.signature.subarray(8)).toEqual(plain.signature);
    expect(signature?.id).not.toEqual(plain.id);
  });

  it('are found on a note that the log signed as well, and leave its own signature as it is', () => {
    const { signer, key } = witness();
    const cosigned = note + cosign(text, signer, 1_800_000_000);
    expect(cosignaturesOn(cosigned, [key])).toEqual([
      { witness: key, timestamp: 1_800_000_000, line: cosigned.slice(note.length) },
    ]);
    expect(openNote(cosigned, [verifierOf('example.com/log', log.publicKey)]).text).toBe(text);
  });

  it('of strangers are passed over, and one of a known witness counts once', () => {
    const [known, stranger] = [witness(), witness('witness.example/w2')];
    const line = cosign(text, known.signer, 1_800_000_000);
    const twice = note + cosign(text, stranger.signer, 5) + line + line;
    expect(cosignaturesOn(twice, [known.key])).toHaveLength(1);
    expect(cosignaturesOn(note, [known.key])).toEqual([]);
  });

  it('are wrong over another text, at another time, without a time, or cut', () => {
    const { signer, key } = witness();
    const line = cosign(text, signer, 1_800_000_000);
    const other = signNote(text.replace('7', '8'), []);
    expect(() => cosignaturesOn(other + line, [key])).toThrow(NoteError);
    const [signature] = parseNote(note + line).signatures.slice(-1);
    const changed = (change: (bytes: Buffer) => Buffer): string => {
      const bytes = change(Buffer.concat([signature!.id, signature!.signature]));
      return `${note}— ${signer.name} ${bytes.toString('base64')}\n`;
    };
    for (let at = 4; at < 76; at += 1) {
      const flipped = changed((bytes) => {
        bytes[at]! ^= 1;
        return bytes;
      });
      expect(() => cosignaturesOn(flipped, [key])).toThrow(NoteError);
    }
    expect(() => cosignaturesOn(note + cosign(text, signer, 0), [key])).toThrow(NoteError);
    expect(() =>
      cosignaturesOn(
        changed((bytes) => bytes.subarray(0, 75)),
        [key],
      ),
    ).toThrow(NoteError);
    // What a log's own key signs is no cosignature, and neither is the other way round.
    expect(() => openNote(note + line, [verifierOf(signer.name, signer.rawPublicKey)])).toThrow(NoteError);
  });
});
