import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, ApiClient } from '../../support/api-client.js';
import { type Order, orderBody, type ProblemAnswer } from '../../support/builders.js';
import type { PlannedStep } from './fault-plan.js';

/** One step with every lasting answer to it. */
export interface StepRecord {
  step: PlannedStep;
  answers: { status: number; text: string }[];
  /** The last answer that was not lasting, when there is no lasting one. */
  unsettled?: string;
}

/** What a client knows of its order when its story ends. */
export interface StoryRecord {
  orderId: string | null;
  paymentId: string | null;
  steps: StepRecord[];
}

export interface ClientSettings {
  apiKey: string;
  address: () => string | null;
  patienceMs: number;
  /** Counts each answer, lasting or not. */
  count: (kind: string) => void;
}

const REQUEST_TIMEOUT_MS = 30_000;

/** Lives one story: each step with its own key, sent until there is a lasting answer, as a careful client does. */
export async function liveStory(story: readonly PlannedStep[], settings: ClientSettings): Promise<StoryRecord> {
  const record: StoryRecord = { orderId: null, paymentId: null, steps: [] };
  for (const step of story) {
    const request = requestOf(step, record);
    const insist = (): Promise<Attempt> => insistOn(step, request, settings);
    const attempts = step.isDoubled ? await Promise.all([insist(), insist()]) : [await insist()];
    if (step.isRepeated) attempts.push(await insist());
    const answers = attempts.flatMap(({ answer }) => (answer ? { status: answer.status, text: answer.text } : []));
    const unsettled = attempts.find(({ answer }) => !answer)?.last;
    record.steps.push({ step, answers, ...(unsettled === undefined ? {} : { unsettled }) });
    const placed = attempts.find(({ answer }) => answer?.status === 201)?.answer?.body;
    if (step.kind === 'place') record.orderId = placed?.id ?? null;
    if (step.kind === 'pay') record.paymentId = placed?.id ?? null;
    if (unsettled !== undefined || record.orderId === null) break;
  }
  return record;
}

interface Attempt {
  answer?: Answer<Order & ProblemAnswer>;
  last: string;
}

interface PlannedRequest {
  method: 'POST' | 'PATCH';
  path: string;
  body: Record<string, unknown>;
  headers: Record<string, string>;
}

async function insistOn(step: PlannedStep, request: PlannedRequest, settings: ClientSettings): Promise<Attempt> {
  const deadline = Date.now() + settings.patienceMs;
  for (let last = 'no answer at all'; ;) {
    const answer = await sendOnce(step.key, request, settings);
    if (answer && answer.status < 500 && answer.body?.code !== 'idempotency-key-in-flight') return { answer, last };
    if (answer) last = `${answer.status} ${answer.text}`;
    if (Date.now() > deadline) return { last };
    await sleep(30 + Math.random() * 120);
  }
}

async function sendOnce(
  key: string,
  { method, path, body, headers }: PlannedRequest,
  { address, apiKey, count }: ClientSettings,
): Promise<Answer<Order & ProblemAnswer> | null> {
  const baseUrl = address();
  if (baseUrl === null) return null;
  const client = new ApiClient(baseUrl, apiKey);
  const options = {
    body,
    headers: { 'idempotency-key': key, ...headers },
    signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
  };
  try {
    const answer = await client.send<Order & ProblemAnswer>(method, path, options);
    const isReplay = answer.headers.get('idempotency-replayed') === 'true';
    count(answer.body?.code ?? `${answer.status}${isReplay ? ' again' : ''}`);
    return answer;
  } catch {
    // Nobody knows what became of the request. That is what the keys are for.
    count('no answer');
    return null;
  }
}

/** Nothing in a request is unique in the database, so that only its key stands between one effect and two. */
function requestOf({ kind, key }: PlannedStep, { orderId, paymentId }: StoryRecord): PlannedRequest {
  if (kind === 'place') {
    const body = orderBody({ externalRef: undefined, metadata: { faultKey: key } });
    return { method: 'POST', path: '/v1/orders', body, headers: {} };
  }
  if (kind === 'note') {
    const headers = { 'content-type': 'application/merge-patch+json', 'if-match': '"1"' };
    return { method: 'PATCH', path: `/v1/orders/${orderId}`, body: { metadata: { note: key } }, headers };
  }
  if (kind === 'pay') {
    return {
      method: 'POST',
      path: `/v1/orders/${orderId}/payments`,
      body: { paymentMethod: 'tok_approve' },
      headers: {},
    };
  }
  if (kind === 'capture') return { method: 'POST', path: `/v1/payments/${paymentId}/captures`, body: {}, headers: {} };
  return { method: 'POST', path: `/v1/orders/${orderId}/transitions`, body: TRANSITIONS[kind], headers: {} };
}

const TRANSITIONS: Record<
  Exclude<PlannedStep['kind'], 'place' | 'note' | 'pay' | 'capture'>,
  Record<string, unknown>
> = {
  confirm: { to: 'confirmed' },
  ship: { to: 'shipped' },
  cancel: { to: 'canceled', reason: 'the story says so' },
  'deliver too early': { to: 'delivered' },
};
