/*
 * Prints the test vectors of docs/audit-format.md: `node scripts/audit-vectors.mjs`. It computes them with Node's built-ins
 * alone, apart from the service's own code, so that the two check each other (src/audit/format/vectors.spec.ts).
 */
import { createHash, createPrivateKey, createPublicKey, sign } from 'node:crypto';

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

const seed = Buffer.from([...Array(32).keys()]);
const privateKey = createPrivateKey({
  key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]),
  format: 'der',
  type: 'pkcs8',
});
const publicKey = createPublicKey(privateKey).export({ format: 'der', type: 'spki' }).subarray(-32);
const origin = 'audit.example.com/waybill/1';
const keyId = sha256(text(`${origin}\n`), Buffer.from([1]), publicKey).subarray(0, 4);

const stream = 'order/01935c1e-7b3a-7c1d-9f00-000000000001';
const genesis = sha256(text('waybill-audit/genesis/v1\n'), int8(1), lp(stream));
const events = [
  {
    eventId: '11111111-2222-4333-8444-555555555555',
    version: 1,
    occurredUs: 1_796_025_600_123_457,
    type: 'order.created',
    body: '{"table": "orders", "reason": null, "snapshot": {"note": "Grün, 日本, \u{1F375}", "total": 3582}}',
  },
  {
    eventId: '66666666-7777-4888-9999-aaaaaaaaaaaa',
    version: 2,
    occurredUs: 1_796_025_601_000_001,
    type: 'order.confirmed',
    body: '{"table": "orders", "changes": {"status": {"new": "confirmed", "old": "pending"}}}',
  },
];
const actor = '0193b6a0-0000-7000-8000-000000000007';

let prevHash = genesis;
const lines = [];
const leaves = [];
for (const [index, event] of events.entries()) {
  const preimage = Buffer.concat([
    text('waybill-audit/v1\n'),
    int8(1),
    uuid(event.eventId),
    lp(stream),
    int8(event.version),
    int8(event.occurredUs),
    lp(event.type),
    uuid(actor),
    lp(event.body),
    prevHash,
  ]);
  const eventHash = sha256(preimage);
  const signature = sign(null, Buffer.concat([text('waybill-audit/sig/v1\n'), eventHash]), privateKey);
  const leaf = sha256(Buffer.from([0]), preimage, signature);
  leaves.push(leaf);
  const { eventId, version, type, occurredUs, body } = event;
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
      signature: signature.toString('base64'),
    },
    preimageBytes: preimage.length,
    leaf: leaf.toString('hex'),
  });
  prevHash = eventHash;
}
const root = sha256(Buffer.from([1]), ...leaves);
const noteText = `${origin}\n2\n${root.toString('base64')}\n`;
const checkpoint = `${noteText}\n— ${origin} ${Buffer.concat([keyId, sign(null, text(noteText), privateKey)]).toString('base64')}\n`;
const header = {
  export: 'waybill-audit-export/v1',
  origin,
  tenantId: 1,
  size: 2,
  firstKey: `${origin}+${keyId.toString('hex')}+${Buffer.concat([Buffer.from([1]), publicKey]).toString('base64')}`,
  checkpoint,
};

const newSeed = Buffer.alloc(32, 0xab);
const newPrivate = createPrivateKey({
  key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), newSeed]),
  format: 'der',
  type: 'pkcs8',
});
const newPublic = createPublicKey(newPrivate).export({ format: 'der', type: 'spki' }).subarray(-32);
const rotation = Buffer.concat([text('waybill-audit/rotation/v1\n'), lp(origin), int8(2), root, publicKey, newPublic]);

console.log(
  `The private key's seed is the bytes 00 01 02 … 1f; the key is named \`${origin}\`. An export of two events:\n`,
);
console.log('```');
console.log(JSON.stringify(header));
for (const { line } of lines) console.log(JSON.stringify(line));
console.log('```\n');
console.log('| what | value |\n| --- | --- |');
console.log(`| public key | \`${publicKey.toString('hex')}\` |`);
console.log(`| genesis hash of the stream | \`${genesis.toString('hex')}\` |`);
for (const [at, { preimageBytes, line, leaf }] of lines.entries()) {
  console.log(`| event ${at}: bytes of the preimage | ${preimageBytes} |`);
  console.log(`| event ${at}: eventHash | \`${line.eventHash}\` |`);
  console.log(`| event ${at}: leaf | \`${leaf}\` |`);
}
console.log(`| root | \`${root.toString('hex')}\` |`);
console.log(`| public key of the seed ab ab … ab | \`${newPublic.toString('hex')}\` |`);
console.log(
  `| its newKeySignature for a rotation at leaf 2 | \`${sign(null, rotation, newPrivate).toString('base64')}\` |`,
);
const salt = Buffer.alloc(32, 7);
const pii = sha256(text('waybill-pii/v1\n'), salt, lp('customer'), lp('{"name":"Ada"}'));
console.log(
  `| digest of the field \`customer\`, the value \`{"name":"Ada"}\`, the salt 07 07 … 07 | \`${pii.toString('hex')}\` |`,
);
