/*
 * Prints the test vectors of docs/audit-format.md: `node scripts/audit-vectors.mjs`. It computes them with Node's built-ins
 * alone, apart from the service's own code, so that the two check each other (src/audit/format/vectors.spec.ts).
 */
import { createHash, createPrivateKey, createPublicKey, hkdfSync, sign } from 'node:crypto';

const sha256 = (...parts) => createHash('sha256').update(Buffer.concat(parts)).digest();
const text = (value) => Buffer.from(value, 'utf8');
const int8 = (value) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(BigInt(value));
  return bytes;
};
const lp = (value) => {
  const length = Buffer.alloc(4);
  length.writeInt32BE(text(value).length);
  return Buffer.concat([length, text(value)]);
};
const uuid = (value) => Buffer.from(value.replaceAll('-', ''), 'hex');

const keyOf = (seed) => {
  const privateKey = createPrivateKey({
    key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]),
    format: 'der',
    type: 'pkcs8',
  });
  const publicKey = createPublicKey(privateKey).export({ format: 'der', type: 'spki' }).subarray(-32);
  return { privateKey, publicKey };
};
const ed25519 = Buffer.from([1]);
const keyId = (name, { publicKey }) => sha256(text(`${name}\n`), ed25519, publicKey).subarray(0, 4);
const vkey = (name, key) =>
  `${name}+${keyId(name, key).toString('hex')}+${Buffer.concat([ed25519, key.publicKey]).toString('base64')}`;
/** The keys of a tenant's log, from the seed of the root key. */
const keysOf = (rootSeed, tenantId) => {
  const [checkpoints, events] = ['checkpoints', 'events'].map((use) => {
    const info = Buffer.concat([text('waybill-audit/key/v1\n'), lp(use), int8(tenantId)]);
    return keyOf(Buffer.from(hkdfSync('sha256', rootSeed, Buffer.alloc(0), info, 32)));
  });
  return { checkpoints, events };
};

const origin = 'audit.example.com/waybill/1';
const keys = keysOf(Buffer.from([...Array(32).keys()]), 1);
const actor = '0193b6a0-0000-7000-8000-000000000007';
const order = 'order/01935c1e-7b3a-7c1d-9f00-000000000001';
const genesis = (stream) => sha256(text('waybill-audit/genesis/v1\n'), int8(1), lp(stream));
const events = [
  {
    eventId: '00000000-1111-4222-8333-444444444444',
    stream: 'log/1',
    version: 1,
    occurredUs: 1_796_025_600_500_000,
    type: 'log.started',
    body: JSON.stringify({
      table: 'logs',
      snapshot: { id: 1, origin, eventKey: vkey(origin, keys.events), checkpointKey: vkey(origin, keys.checkpoints) },
    }),
  },
  {
    eventId: '11111111-2222-4333-8444-555555555555',
    stream: order,
    version: 1,
    occurredUs: 1_796_025_600_123_457,
    type: 'order.created',
    body: '{"table": "orders", "reason": null, "snapshot": {"note": "Grün, 日本, \u{1F375}", "total": 3582}}',
  },
  {
    eventId: '66666666-7777-4888-9999-aaaaaaaaaaaa',
    stream: order,
    version: 2,
    occurredUs: 1_796_025_601_000_001,
    type: 'order.confirmed',
    body: '{"table": "orders", "changes": {"status": {"new": "confirmed", "old": "pending"}}}',
  },
];
const sealedUs = 1_796_025_601_500_000;

const ends = new Map();
const lines = [];
const leaves = [];
for (const [index, event] of events.entries()) {
  const { eventId, stream, version, type, occurredUs, body } = event;
  const prevHash = ends.get(stream) ?? genesis(stream);
  const preimage = Buffer.concat([
    text('waybill-audit/v1\n'),
    int8(1),
    uuid(eventId),
    lp(stream),
    int8(version),
    int8(occurredUs),
    lp(type),
    uuid(actor),
    lp(body),
    prevHash,
  ]);
  const eventHash = sha256(preimage);
  const message = Buffer.concat([text('waybill-audit/sig/v1\n'), eventHash, int8(sealedUs)]);
  const signature = sign(null, message, keys.events.privateKey);
  const leaf = sha256(Buffer.from([0]), preimage, int8(sealedUs), signature);
  leaves.push(leaf);
  lines.push({
    line: {
      index,
      stream,
      version,
      eventId,
      type,
      actor,
      occurredUs,
      body,
      prevHash: prevHash.toString('hex'),
      eventHash: eventHash.toString('hex'),
      format: 1,
      sealedUs,
      signature: signature.toString('base64'),
    },
    preimageBytes: preimage.length,
    leaf: leaf.toString('hex'),
  });
  ends.set(stream, eventHash);
}
const node = (left, right) => sha256(Buffer.from([1]), left, right);
const root = node(node(leaves[0], leaves[1]), leaves[2]);
const noteText = `${origin}\n3\n${root.toString('base64')}\n`;
const signed = Buffer.concat([
  keyId(origin, keys.checkpoints),
  sign(null, text(noteText), keys.checkpoints.privateKey),
]);
const checkpoint = `${noteText}\n— ${origin} ${signed.toString('base64')}\n`;
const header = { export: 'waybill-audit-export/v1', origin, tenantId: 1, size: 3, checkpoint };

const next = keysOf(Buffer.alloc(32, 0xab), 1);
const rotation = Buffer.concat([
  text('waybill-audit/rotation/v1\n'),
  lp(origin),
  int8(3),
  root,
  keys.checkpoints.publicKey,
  keys.events.publicKey,
  next.checkpoints.publicKey,
  next.events.publicKey,
]);

console.log(
  `The root key's seed is the bytes 00 01 02 … 1f, the tenant is 1, the log is called \`${origin}\`. Its verifier key is \`${vkey(origin, keys.checkpoints)}\`. An export of three events:\n`,
);
console.log('```');
console.log(JSON.stringify(header));
for (const { line } of lines) console.log(JSON.stringify(line));
console.log('```\n');
console.log('| what | value |\n| --- | --- |');
console.log(`| public key for checkpoints | \`${keys.checkpoints.publicKey.toString('hex')}\` |`);
console.log(`| public key for events | \`${keys.events.publicKey.toString('hex')}\` |`);
console.log(`| genesis hash of the order's stream | \`${genesis(order).toString('hex')}\` |`);
for (const [at, { preimageBytes, line, leaf }] of lines.entries()) {
  console.log(`| event ${at}: bytes of the preimage | ${preimageBytes} |`);
  console.log(`| event ${at}: eventHash | \`${line.eventHash}\` |`);
  console.log(`| event ${at}: leaf | \`${leaf}\` |`);
}
console.log(`| root | \`${root.toString('hex')}\` |`);
console.log(
  `| public key for checkpoints of the root seed ab ab … ab | \`${next.checkpoints.publicKey.toString('hex')}\` |`,
);
console.log(`| its public key for events | \`${next.events.publicKey.toString('hex')}\` |`);
for (const [name, { checkpoints }] of Object.entries({ oldKeySignature: keys, newKeySignature: next }))
  console.log(
    `| ${name} of a rotation to it at leaf 3 | \`${sign(null, rotation, checkpoints.privateKey).toString('base64')}\` |`,
  );
const salt = Buffer.alloc(32, 7);
const pii = sha256(text('waybill-pii/v1\n'), salt, lp('customer'), lp('{"name":"Ada"}'));
console.log(
  `| digest of the field \`customer\`, the value \`{"name":"Ada"}\`, the salt 07 07 … 07 | \`${pii.toString('hex')}\` |`,
);
