import { isUtf8 } from 'node:buffer';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Witness } from './witness.js';

/** Most bytes of a request: a note of sixteen signatures of 5 kB each, and a proof. */
const BODY_LIMIT = 128 * 1024;
const HEADERS_TIMEOUT = 10_000;
const REQUEST_TIMEOUT = 20_000;
/** Longer than a log of one checkpoint a minute lets its connection rest. */
const KEEP_ALIVE_TIMEOUT = 75_000;
/** A witness may serve a checkpoint that is up to an hour old; this one asks caches for less. */
const CHECKPOINT_CACHING = 'public, max-age=5';

export interface WitnessReport {
  method: string;
  path: string;
  status: number;
  origin: string | null;
  /** What went wrong here; null for an answer that was decided. */
  error: Error | null;
}

/**
 * The two addresses of a witness: `POST /add-checkpoint` and `GET /<SHA-256 of the origin>/checkpoint`.
 *
 * @param onAnswer told of each request
 */
export function witnessServer(witness: Witness, onAnswer: (report: WitnessReport) => void): Server {
  const server = createServer(
    { headersTimeout: HEADERS_TIMEOUT, requestTimeout: REQUEST_TIMEOUT, keepAliveTimeout: KEEP_ALIVE_TIMEOUT },
    (request, response) => {
      const { method = '', url = '' } = request;
      const report = (origin: string | null, error: Error | null): void =>
        onAnswer({ method, path: url, status: response.statusCode, origin, error });
      answer(witness, request, response).then(
        (origin) => report(origin, null),
        (cause: unknown) => {
          send(response, 500, 'the witness could not answer; its log says why');
          report(null, cause instanceof Error ? cause : new Error(String(cause)));
        },
      );
    },
  );
  return server;
}

/** @returns the origin of the log that was asked for */
async function answer(witness: Witness, request: IncomingMessage, response: ServerResponse): Promise<string | null> {
  const { method = '', url = '' } = request;
  const [, hash] = /^\/([0-9a-f]{64})\/checkpoint$/.exec(url) ?? [];
  if (url === '/add-checkpoint' && method === 'POST') return addCheckpoint(witness, request, response);
  if (hash !== undefined && method === 'GET') {
    const note = await witness.latest(hash);
    if (note === null) send(response, 404, 'this witness cosigned no checkpoint of such a log');
    else {
      response.setHeader('cache-control', CHECKPOINT_CACHING);
      respond(response, 200, 'text/plain; charset=utf-8', note);
    }
    return null;
  }
  if (url === '/add-checkpoint' || hash !== undefined) {
    response.setHeader('allow', hash === undefined ? 'POST' : 'GET');
    send(response, 405, 'this address has another method');
  } else {
    send(response, 404, 'a witness has POST /add-checkpoint and GET /<SHA-256 of an origin in hex>/checkpoint');
  }
  return null;
}

async function addCheckpoint(
  witness: Witness,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<string | null> {
  const body = await readBody(request);
  if (body === null) {
    send(response.setHeader('connection', 'close'), 413, `a request has at most ${BODY_LIMIT} bytes`);
    return null;
  }
  if (!isUtf8(body)) {
    send(response, 400, 'the request is not UTF-8');
    return null;
  }
  const { status, contentType, body: said, origin } = await witness.addCheckpoint(body.toString('utf8'));
  respond(response, status, contentType, said);
  return origin;
}

/** @returns null when it is too long; the rest is not read */
async function readBody(request: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > BODY_LIMIT) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function send(response: ServerResponse, status: number, message: string): void {
  respond(response, status, 'text/plain; charset=utf-8', `${message}\n`);
}

function respond(response: ServerResponse, status: number, contentType: string, body: string): void {
  if (response.headersSent) return;
  response.writeHead(status, { 'content-type': contentType, 'x-content-type-options': 'nosniff' }).end(body);
}
