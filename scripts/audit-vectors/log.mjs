import * as bytes from './bytes.mjs';

export const TENANT = 1;
export const ORIGIN = 'audit.example.com/waybill/1';
export const ORDER_A = 'order/01935c1e-7b3a-7c1d-9f00-000000000001';
export const ORDER_B = 'order/01935c1e-7b3a-7c1d-9f00-000000000002';
const ACTOR = '0193b6a0-0000-7000-8000-000000000007';
const BEGIN = 1_796_025_600_000_000;

/** Seals events into a log as the format has it, or otherwise where a case says so. */
export class Log {
  constructor(keys, origin = ORIGIN) {
    this.keys = keys;
    this.origin = origin;
    this.lines = [];
    this.leaves = [];
    this.ends = new Map();
  }

  get size() {
    return this.leaves.length;
  }

  root(size = this.size) {
    return bytes.rootOf(this.leaves.slice(0, size));
  }

  /** @param other what this event has otherwise: members of the line, or how its hash is signed */
  add(stream, type, body, { sign = (message) => this.keys.events.sign(message), ...other } = {}) {
    const index = this.size;
    const end = this.ends.get(stream) ?? { version: 0, hash: bytes.genesis(TENANT, stream) };
    const event = {
      index,
      stream,
      version: end.version + 1,
      eventId: `00000000-1111-4222-8333-${String(index).padStart(12, '0')}`,
      type,
      actor: ACTOR,
      occurredUs: BEGIN + index * 1_000_001,
      body: typeof body === 'string' ? body : JSON.stringify(body),
      prevHash: end.hash,
      sealedUs: BEGIN + index * 1_000_001 + 500_000,
      ...other,
    };
    const preimage = bytes.preimage(TENANT, event);
    const hash = bytes.sha256(preimage);
    const signature = sign(bytes.signatureMessage(hash, event.sealedUs));
    this.leaves.push(bytes.leafHash(preimage, event.sealedUs, signature));
    this.ends.set(stream, { version: event.version, hash });
    const { sealedUs, prevHash, ...rest } = event;
    this.lines.push(
      JSON.stringify({
        ...rest,
        prevHash: prevHash.toString('hex'),
        eventHash: hash.toString('hex'),
        format: 1,
        sealedUs,
        signature: signature.toString('base64'),
      }),
    );
    return this;
  }

  /** @param other what the snapshot has otherwise */
  start(other = {}, options = {}) {
    return this.about('log.started', { origin: this.origin, ...this.names(this.origin, this.keys), ...other }, options);
  }

  rotate(next, other = {}, options = {}) {
    const { keys, origin, size } = this;
    const message = bytes.rotationMessage(origin, size, this.root(), keys, next);
    const [old, taking] = [this.names(origin, keys), this.names(origin, next)];
    this.about(
      'log.key-rotated',
      {
        size,
        root: this.root().toString('hex'),
        oldCheckpointKey: old.checkpointKey,
        oldEventKey: old.eventKey,
        newCheckpointKey: taking.checkpointKey,
        newEventKey: taking.eventKey,
        oldKeySignature: keys.checkpoints.sign(message).toString('base64'),
        newKeySignature: next.checkpoints.sign(message).toString('base64'),
        ...other,
      },
      options,
    );
    this.keys = next;
    return this;
  }

  resume(origin, abandoned, other = {}, options = {}) {
    const snapshot = { origin, oldOrigin: this.origin, abandoned, size: this.size, root: this.root().toString('hex') };
    this.about('log.resumed', { ...snapshot, ...this.names(origin, this.keys), ...other }, options);
    this.origin = origin;
    return this;
  }

  about(type, snapshot, options) {
    const body = { table: 'logs', reason: null, changes: null, snapshot: { id: TENANT, ...snapshot }, requestId: null };
    return this.add(`log/${TENANT}`, type, body, options);
  }

  names(origin, { checkpoints, events }) {
    return { checkpointKey: bytes.vkey(origin, checkpoints), eventKey: bytes.vkey(origin, events) };
  }

  checkpoint(size = this.size, origin = this.origin, keys = [this.keys]) {
    return bytes.note(
      origin,
      size,
      this.root(size),
      keys.map(({ checkpoints }) => [origin, checkpoints]),
    );
  }

  /** The lines of an export. */
  export({ checkpoint = this.checkpoint(), size = this.size, origin = this.origin } = {}) {
    const header = { export: 'waybill-audit-export/v1', origin, tenantId: TENANT, size, checkpoint };
    return [JSON.stringify(header), ...this.lines];
  }
}
