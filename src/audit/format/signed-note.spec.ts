import { createPrivateKey } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { CheckpointError, checkpointText, parseCheckpoint, signCheckpoint } from './checkpoint.js';
import { generateSigningKey, parseSigningKey } from './signing-key.js';
import {
  NoteError,
  openNote,
  parseVerifierKey,
  signNote,
  UnknownSignerError,
  verifierKeyText,
  verifierOf,
} from './signed-note.js';

// The example of the Go implementation that the specification grew from (golang.org/x/mod/sumdb/note).
const GO_KEY = 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW';
const GO_SEED = Buffer.from('AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz', 'base64').subarray(1);
const GO_TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n";
const GO_NOTE = `${GO_TEXT}\n— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n`;

const go = parseVerifierKey(GO_KEY);
const goSigner = {
  name: 'PeterNeumann',
  privateKey: createPrivateKey({
    key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), GO_SEED]),
    format: 'der',
    type: 'pkcs8',
  }),
  rawPublicKey: go.rawPublicKey,
};

describe('signed notes', () => {
  it("accept the reference implementation's note and key", () => {
    expect(openNote(GO_NOTE, [go]).text).toBe(GO_TEXT);
    expect(verifierKeyText(go.name, go.rawPublicKey)).toBe(GO_KEY);
  });

  it("are byte for byte the reference implementation's when signed with its key", () => {
    expect(signNote(GO_TEXT, [goSigner])).toBe(GO_NOTE);
  });

  it('refuse a key with any character changed', () => {
    for (let at = 0; at < GO_KEY.length; at += 1) {
      const changed = GO_KEY.slice(0, at) + String.fromCodePoint(GO_KEY.charCodeAt(at) + 1) + GO_KEY.slice(at + 1);
      expect(() => parseVerifierKey(changed)).toThrow(NoteError);
    }
    expect(() => parseVerifierKey('PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW')).toThrow(
      NoteError,
    );
  });

  it('refuse a changed text, a changed signature, and one by the same name with another key', () => {
    expect(() => openNote(GO_NOTE.replace('cryptography', 'cryptographY'), [go])).toThrow(NoteError);
    expect(() => openNote(GO_NOTE.replace('ZJku', 'ZJkv'), [go])).toThrow(NoteError);
    const stranger = parseSigningKey(generateSigningKey());
    const note = signNote(GO_TEXT, [
      { ...goSigner, privateKey: stranger.privateKey, rawPublicKey: stranger.publicKey },
    ]);
    expect(() => openNote(note, [go])).toThrow(UnknownSignerError);
  });

  it('pass over signatures of unknown keys, and reject the note for a wrong one of a known key', () => {
    const other = parseSigningKey(generateSigningKey());
    const both = signNote(GO_TEXT, [
      { name: 'other.example', privateKey: other.privateKey, rawPublicKey: other.publicKey },
      goSigner,
    ]);
    expect(openNote(both, [go]).signedBy).toHaveLength(1);
    const known = verifierOf('other.example', other.publicKey);
    const broken = both.replace(
      /(— other\.example .{20})(.)/u,
      (_, head: string, c: string) => head + (c === 'A' ? 'B' : 'A'),
    );
    expect(() => openNote(broken, [go, known])).toThrow(NoteError);
  });

  it.each([
    ['', 'nothing at all'],
    [GO_TEXT, 'no signature'],
    [GO_NOTE.slice(0, -1), 'no newline at the end'],
    [GO_NOTE.replace('\n\n', '\n'), 'no blank line'],
    [GO_NOTE.replace('— ', '- '), 'another dash'],
    [GO_NOTE.replace('— PeterNeumann', '—  PeterNeumann'), 'two spaces'],
    [`${GO_NOTE}\n`, 'an empty line after the signature'],
    [GO_NOTE.replace('If', 'I\u0007f'), 'a control character'],
    [GO_NOTE.replace('AM=\n', 'AM\n'), 'base64 without padding'],
    [GO_NOTE.replace('AM=\n', 'AN=\n'), 'base64 with stray bits'],
  ])('refuse what is malformed: %#', (note, what) => {
    expect(() => openNote(note, [go])).toThrow(NoteError);
    expect(what).not.toBe('');
  });

  it('take names without white space and plus only', () => {
    expect(() => verifierOf('a b', go.rawPublicKey)).toThrow(NoteError);
    expect(() => verifierOf('a+b', go.rawPublicKey)).toThrow(NoteError);
    expect(() => verifierOf('', go.rawPublicKey)).toThrow(NoteError);
    expect(() => signNote('no newline', [goSigner])).toThrow(NoteError);
  });
});

describe('checkpoints', () => {
  // The example of https://c2sp.org/tlog-checkpoint@v1.0.0.
  const text = 'example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n';

  it("read and write the specification's example", () => {
    const checkpoint = parseCheckpoint(text);
    expect(checkpoint).toMatchObject({ origin: 'example.com/behind-the-sofa', size: 20_852_163 });
    expect(checkpointText(checkpoint)).toBe(text);
    expect(parseCheckpoint(`${text}extension\n`)).toEqual(checkpoint);
  });

  it('are notes that open with the key they were signed with', () => {
    const key = parseSigningKey(generateSigningKey());
    const checkpoint = parseCheckpoint(text);
    const name = checkpoint.origin;
    const note = signCheckpoint(checkpoint, [{ name, privateKey: key.privateKey, rawPublicKey: key.publicKey }]);
    expect(parseCheckpoint(openNote(note, [verifierOf(name, key.publicKey)]).text)).toEqual(checkpoint);
    expect(() => openNote(note, [verifierOf('example.com/other', key.publicKey)])).toThrow(UnknownSignerError);
  });

  it.each([
    'example.com/log\n01\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n',
    'example.com/log\n-1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n',
    'example.com/log\n9007199254740993\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n',
    'example.com/log\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxqw==\n',
    'example.com/log\n1\nnot base64\n',
    '\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n',
    'example.com/log\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=',
    'example.com/log\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\nextension\n',
    'example.com/log\n',
  ])('refuse what is none: %#', (malformed) => {
    expect(() => parseCheckpoint(malformed)).toThrow(CheckpointError);
  });
});
