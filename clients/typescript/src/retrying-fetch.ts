import { idempotencyKey, KEY_HEADER } from './idempotency-key.js';

/** What happens between two tries of one request. */
export interface Retry {
  /** The try that failed, from 1. */
  attempt: number;
  waitMs: number;
  /** A sentence for a log: the status and the problem's code, or the network's error. */
  reason: string;
}

export interface RetryOptions {
  /** Tries in all; 1 never repeats. Default 6. */
  maxTries?: number;
  /** The wait after the first try in milliseconds; it doubles with each. Default 250. */
  firstWaitMs?: number;
  /** The longest wait in milliseconds, unless `Retry-After` asks for more. Default 10,000. */
  longestWaitMs?: number;
  /** When one try has had no complete answer for this long, it counts as a broken connection. Default 30,000. */
  tryTimeoutMs?: number;
  /** Told of every repetition. */
  onRetry?: (retry: Retry) => void;
}

const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS']);
/** Where nothing was done, or it isn't known: the same key makes the repetition safe in both cases. */
const RETRIED_STATUSES = new Set([408, 429, 502, 503, 504]);
/** 24.8 days: a timer that is set for longer goes off at once. */
const LONGEST_TIMER_MS = 2_147_483_647;
const IN_FLIGHT = 'idempotency-key-in-flight';

/**
 * `fetch` that gives every write an Idempotency-Key and repeats what failed on the way: broken connections, 408, 429,
 * 502, 503, 504, and a 409 of a key that is still in flight. It waits as `Retry-After` says and otherwise twice as long each
 * time, with jitter, so that many clients don't come back at once. Any other answer, a 500 too, is the caller's.
 */
export function retryingFetch(
  fetchOnce: typeof fetch,
  options: RetryOptions = {},
): (request: Request) => Promise<Response> {
  const { maxTries = 6, tryTimeoutMs = 30_000, onRetry } = options;
  return async (given) => {
    const request = SAFE_METHODS.has(given.method) ? given : withKey(given);
    for (let attempt = 1; ; attempt += 1) {
      const isLast = attempt >= maxTries;
      const outcome = await tryOnce(fetchOnce, request, tryTimeoutMs, isLast);
      if ('response' in outcome) return outcome.response;
      const waitMs = Math.min(LONGEST_TIMER_MS, Math.max(outcome.retryAfterMs ?? 0, backOff(attempt, options)));
      onRetry?.({ attempt, waitMs, reason: outcome.reason });
      await sleep(waitMs, request.signal);
    }
  };
}

type Outcome = { response: Response } | { reason: string; retryAfterMs?: number };

async function tryOnce(
  fetchOnce: typeof fetch,
  request: Request,
  timeoutMs: number,
  isLast: boolean,
): Promise<Outcome> {
  let response: Response;
  try {
    const signal = AbortSignal.any([request.signal, AbortSignal.timeout(timeoutMs)]);
    // A clone, since sending uses the body up.
    response = await readWhole(await fetchOnce(new Request(request.clone(), { signal })));
  } catch (error) {
    request.signal.throwIfAborted();
    if (isLast) throw error;
    return { reason: error instanceof Error ? error.message : String(error) };
  }
  if (isLast) return { response };
  const reason = await reasonToRetry(response);
  return reason === null ? { response } : { reason, retryAfterMs: retryAfterMs(response.headers.get('retry-after')) };
}

function withKey(request: Request): Request {
  if (request.headers.has(KEY_HEADER)) return request;
  const headers = new Headers(request.headers);
  headers.set(KEY_HEADER, idempotencyKey()[KEY_HEADER]);
  return new Request(request, { headers });
}

/** A connection can break in the middle of an answer, so JSON is read before the try counts as done; streams are not. */
async function readWhole(response: Response): Promise<Response> {
  const isJson = /[/+]json\b/.test(response.headers.get('content-type') ?? '');
  if (!isJson || response.body === null) return response;
  const { status, statusText, headers } = response;
  return new Response(await response.arrayBuffer(), { status, statusText, headers });
}

async function reasonToRetry(response: Response): Promise<string | null> {
  const mayPass = RETRIED_STATUSES.has(response.status);
  if (!mayPass && response.status !== 409) return null;
  const code = await codeOf(response);
  return mayPass || code === IN_FLIGHT ? `${response.status} ${code ?? response.statusText}`.trim() : null;
}

/** A proxy's 503 may be a page of HTML, or claim to be JSON and be none. */
async function codeOf(response: Response): Promise<string | null> {
  const text = await response.clone().text();
  const [, code = null] = /"code"\s*:\s*"([a-z-]+)"/.exec(text) ?? [];
  return code;
}

/** Half of the wait is certain, half of it is chance. */
function backOff(attempt: number, { firstWaitMs = 250, longestWaitMs = 10_000 }: RetryOptions): number {
  return Math.min(longestWaitMs, firstWaitMs * 2 ** (attempt - 1)) * (0.5 + Math.random() / 2);
}

/** Seconds, or a date (RFC 9110); undefined when it is neither. */
function retryAfterMs(header: string | null): number | undefined {
  if (header === null) return undefined;
  if (/^\d+$/.test(header)) return Number(header) * 1000;
  const time = Date.parse(header);
  return Number.isNaN(time) ? undefined : Math.max(0, time - Date.now());
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop);
      resolve();
    }, ms);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
}
