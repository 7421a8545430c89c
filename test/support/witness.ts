import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { signCheckpoint } from '../../src/audit/format/checkpoint.js';
import { sha256 } from '../../src/audit/format/event-hash.js';
import { nodeHash } from '../../src/audit/format/merkle.js';
import { type NoteVerifier, verifierOf } from '../../src/audit/format/signed-note.js';
import { generateSigningKey, parseSigningKey } from '../../src/audit/format/signing-key.js';
import { TreeReader } from '../../src/audit/log/tree-reader.js';
import { parseWitnessKey, type WitnessKey, witnessKeyText } from '../../src/audit/witness/cosignature.js';
import { Witness } from '../../src/audit/witness/witness.js';
import { witnessServer } from '../../src/audit/witness/witness-server.js';
import { WitnessState } from '../../src/audit/witness/witness-state.js';

/** A log in memory that signs whatever it is asked to. */
export class MemoryLog {
  readonly leaves: Buffer[] = [];
  readonly key: NoteVerifier;
  private readonly signing = parseSigningKey(generateSigningKey());
  readonly reader = new TreeReader({
    leafHashes: (begin, end) => Promise.resolve(this.leaves.slice(begin, end)),
    nodeHashes: (level, begin, end) =>
      Promise.resolve(Array.from({ length: end - begin }, (_, at) => this.node(level, begin + at))),
  });

  constructor(
    readonly origin: string,
    /** Makes the leaves of two logs different ones. */
    private readonly seed = 'leaf',
  ) {
    this.key = verifierOf(origin, this.signing.publicKey);
  }

  grow(to: number): this {
    while (this.leaves.length < to) this.leaves.push(sha256(Buffer.from(`${this.seed} ${this.leaves.length}`)));
    return this;
  }

  /** The same log from some leaf on with others, signed by the same key. */
  fork(at: number, seed: string): MemoryLog {
    const fork = new MemoryLog(this.origin, seed);
    fork.leaves.push(...this.leaves.slice(0, at));
    Object.assign(fork, { key: this.key, signing: this.signing });
    return fork;
  }

  async note(size = this.leaves.length): Promise<string> {
    const { privateKey, publicKey } = this.signing;
    const root = await this.reader.root(size);
    return signCheckpoint({ origin: this.origin, size, root }, [
      { name: this.origin, privateKey, rawPublicKey: publicKey },
    ]);
  }

  async submission(size = this.leaves.length) {
    return {
      note: await this.note(size),
      size,
      proofFrom: (from: number) => this.reader.consistencyProof(from, size),
    };
  }

  private node(level: number, index: number): Buffer {
    if (level === 0) return this.leaves[index]!;
    return nodeHash(this.node(level - 1, 2 * index), this.node(level - 1, 2 * index + 1));
  }
}

export interface RunningWitness {
  url: string;
  key: WitnessKey;
  /** Logs that it knows. */
  logs: NoteVerifier[];
  /** Answers in the place of the witness while it is set. */
  instead: ((request: IncomingMessage, response: ServerResponse) => void) | null;
  /** Requests that came, the answered ones in the place of the witness, too. */
  requests: number;
  close(): Promise<void>;
}

/** A witness on this machine, with a folder of its own. */
export async function startWitness(name: string, logs: NoteVerifier[] = []): Promise<RunningWitness> {
  const { privateKey, publicKey } = parseSigningKey(generateSigningKey());
  const key = parseWitnessKey(witnessKeyText(name, publicKey));
  const folder = await mkdtemp(join(tmpdir(), 'waybill-witness-'));
  const state = await WitnessState.open(folder, key);
  const witness = new Witness(
    { name, privateKey, rawPublicKey: publicKey },
    () => Promise.resolve(running.logs),
    state,
  );
  const honest = witnessServer(witness, () => undefined);
  const server = createServer((request, response) => {
    running.requests += 1;
    if (running.instead) running.instead(request, response);
    else honest.emit('request', request, response);
  });
  const running: RunningWitness = {
    url: await listening(server),
    key,
    logs,
    instead: null,
    requests: 0,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await state.close();
      await rm(folder, { recursive: true });
    },
  };
  return running;
}

/** @returns its address on this machine */
export async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
