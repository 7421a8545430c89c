/* The bytes of docs/audit-format.md with Node's built-ins alone, apart from the service's own code. */
import { createHash, createPrivateKey, createPublicKey, hkdfSync, sign } from 'node:crypto';

export const sha256 = (...parts) => createHash('sha256').update(Buffer.concat(parts)).digest();
export const text = (value) => Buffer.from(value, 'utf8');
export const int8 = (value) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(BigInt(value));
  return bytes;
};
export const lp = (value) => {
  const length = Buffer.alloc(4);
  length.writeInt32BE(text(value).length);
  return Buffer.concat([length, text(value)]);
};
const uuid = (value) => Buffer.from(value.replaceAll('-', ''), 'hex');

export const keyOf = (seed) => {
  const privateKey = createPrivateKey({
    key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]),
    format: 'der',
    type: 'pkcs8',
  });
  const publicKey = createPublicKey(privateKey).export({ format: 'der', type: 'spki' }).subarray(-32);
  return { seed, publicKey, sign: (message) => sign(null, message, privateKey) };
};

/** The keys of a tenant's log, from the seed of the root key. */
export const keysOf = (rootSeed, tenantId) => {
  const [checkpoints, events] = ['checkpoints', 'events'].map((use) => {
    const info = Buffer.concat([text('waybill-audit/key/v1\n'), lp(use), int8(tenantId)]);
    return keyOf(Buffer.from(hkdfSync('sha256', rootSeed, Buffer.alloc(0), info, 32)));
  });
  return { checkpoints, events };
};

const ED25519 = Buffer.from([1]);
export const keyId = (name, { publicKey }) => sha256(text(`${name}\n`), ED25519, publicKey).subarray(0, 4);
export const vkey = (name, key) =>
  `${name}+${keyId(name, key).toString('hex')}+${Buffer.concat([ED25519, key.publicKey]).toString('base64')}`;

export const genesis = (tenantId, stream) => sha256(text('waybill-audit/genesis/v1\n'), int8(tenantId), lp(stream));

/** @param event the members of a line, prevHash as bytes */
export const preimage = (tenantId, { eventId, stream, version, occurredUs, type, actor, body, prevHash }) =>
  Buffer.concat([
    text('waybill-audit/v1\n'),
    int8(tenantId),
    uuid(eventId),
    lp(stream),
    int8(version),
    int8(occurredUs),
    lp(type),
    uuid(actor),
    lp(body),
    prevHash,
  ]);

export const signatureMessage = (eventHash, sealedUs) =>
  Buffer.concat([text('waybill-audit/sig/v1\n'), eventHash, int8(sealedUs)]);

export const leafHash = (bytes, sealedUs, signature) => sha256(Buffer.from([0]), bytes, int8(sealedUs), signature);

/** Root of a tree by its definition: of no leaf, of one, of two parts. */
export const rootOf = (leaves) => {
  if (leaves.length === 0) return sha256();
  if (leaves.length === 1) return leaves[0];
  let half = 1;
  while (half * 2 < leaves.length) half *= 2;
  return sha256(Buffer.from([1]), rootOf(leaves.slice(0, half)), rootOf(leaves.slice(half)));
};

/** @param signers pairs of a name and a key */
export const note = (origin, size, root, signers) => {
  const body = `${origin}\n${size}\n${root.toString('base64')}\n`;
  return `${body}\n${signers.map(([name, key]) => signatureLine(body, name, key)).join('')}`;
};

export const signatureLine = (body, name, key) =>
  `— ${name} ${Buffer.concat([keyId(name, key), key.sign(text(body))]).toString('base64')}\n`;

/** @param old pairs of keys, as `keysOf` makes them */
export const rotationMessage = (origin, size, root, old, next) =>
  Buffer.concat([
    text('waybill-audit/rotation/v1\n'),
    lp(origin),
    int8(size),
    root,
    old.checkpoints.publicKey,
    old.events.publicKey,
    next.checkpoints.publicKey,
    next.events.publicKey,
  ]);
