import { fetchLimited, Unreachable } from '../fetch-limited.js';
import { TileSource } from '../tiles/tile-source.js';
import { TreeReader } from '../log/tree-reader.js';

/** A log as its service shows it to whoever watches. */
export interface WatchedLog {
  /** The latest checkpoint, a signed note. */
  checkpoint(): Promise<string>;
  /** Consistency proof between two sizes, as the service gives it. */
  consistencyProof(from: number, to: number): Promise<Buffer[]>;
}

/** The service doesn't answer, or not with what was asked for. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';
}

const TIMEOUT = 20_000;
/** Most bytes of an answer: a note, a proof of 63 hashes, or a tile. */
const LIMIT = 256 * 1024;

/** A public log, by the prefix of its tiles: https://c2sp.org/tlog-tiles. */
export function tiledLog(prefix: string): WatchedLog {
  return {
    checkpoint: async () => (await fetchPart(`${prefix}/checkpoint`)).toString('utf8'),
    consistencyProof: (from, to) => {
      const source = new TileSource(to, (path) => fetchTile(`${prefix}/tile/${path}`));
      return new TreeReader(source).consistencyProof(from, to);
    },
  };
}

/**
 * The log of a service's caller.
 *
 * @param baseUrl of the service, without a path
 * @param token an API key or JWT
 */
export function ownLog(baseUrl: string, token: string): WatchedLog {
  const ask = (path: string): Promise<Buffer> => fetchPart(`${baseUrl}/v1/audit/${path}`, token);
  return {
    checkpoint: async () => (await ask('checkpoints/latest')).toString('utf8'),
    consistencyProof: async (from, to) => {
      const answer = (await ask(`proofs/consistency?from=${from}&to=${to}`)).toString('utf8');
      return readProof(answer);
    },
  };
}

/** @throws NoAnswer */
function readProof(answer: string): Buffer[] {
  try {
    return (JSON.parse(answer) as { proof: string[] }).proof.map((hash) => Buffer.from(hash, 'hex'));
  } catch (error) {
    throw new NoAnswer(`the service answered with what is no proof: ${answer.slice(0, 200)}`, { cause: error });
  }
}

async function fetchTile(url: string): Promise<Buffer | null> {
  const { status, body } = await get(url);
  if (status === 404) return null;
  return wanted(url, status, body);
}

async function fetchPart(url: string, token?: string): Promise<Buffer> {
  const { status, body } = await get(url, token);
  return wanted(url, status, body);
}

function wanted(url: string, status: number, body: Buffer): Buffer {
  if (status === 200) return body;
  throw new NoAnswer(`${url} answered ${status}: ${body.toString('utf8').trim().slice(0, 300)}`);
}

async function get(url: string, token?: string): Promise<{ status: number; body: Buffer }> {
  const headers = { 'cache-control': 'no-cache', ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) };
  try {
    return await fetchLimited(url, { headers, signal: AbortSignal.timeout(TIMEOUT) }, LIMIT);
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    throw new NoAnswer(`${url} does not answer: ${error.message}`, { cause: error });
  }
}
