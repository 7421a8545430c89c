import { detailOf, type ApiAnswer, type ApiClient } from './api-client.js';
import { placementKey, stepKey, type RecordedOrder } from './recorded-order.js';

/** What became of one recorded order in this run. */
export interface PlayedOrder {
  orderId: string;
  /** False: it was there before this run asked. */
  placed: boolean;
  /** Steps taken in this run, and steps that were behind it already. */
  moved: number;
  alreadyMoved: number;
  /** The run was stopped before its last step. */
  stopped: boolean;
}

/** The service refused one order or step for good. */
export class LineFailed extends Error {}

/**
 * Plays one recorded order: places it and takes its steps. Safe to repeat after any interruption, whether or not the
 * service replays idempotency keys: where it doesn't, `external-ref-taken` names the order that is there, and the
 * order's history says which steps are behind it.
 * @param stopping asked before each step; true ends the play between two requests.
 * @throws LineFailed
 */
export async function playOrder(
  api: ApiClient,
  recorded: RecordedOrder,
  stopping: () => boolean = () => false,
): Promise<PlayedOrder> {
  const { orderId, placed } = await placeOrder(api, recorded);
  const played: PlayedOrder = { orderId, placed, moved: 0, alreadyMoved: 0, stopped: false };
  let done = placed ? 0 : await stepsBehind(api, recorded, orderId);
  played.alreadyMoved = done;
  while (done < recorded.steps.length) {
    if (stopping()) return { ...played, stopped: true };
    if (await takeStep(api, recorded, orderId, done)) played.moved += 1;
    else played.alreadyMoved += 1;
    done += 1;
  }
  return played;
}

async function placeOrder(api: ApiClient, recorded: RecordedOrder): Promise<{ orderId: string; placed: boolean }> {
  const answer = await api.post('/v1/orders', recorded.order, placementKey(recorded));
  if (answer.status === 201) return { orderId: textOf(answer.body, 'id'), placed: !answer.replayed };
  if (answer.status !== 409 || answer.body['code'] !== 'external-ref-taken') throw refusal('POST /v1/orders', answer);
  const orderId = textOf(answer.body, 'orderId');
  refuseOtherOrder(recorded, await readOrder(api, orderId));
  return { orderId, placed: false };
}

/** An order of the same reference that says something else is not the one that was recorded. */
function refuseOtherOrder({ order }: RecordedOrder, found: Record<string, unknown>): void {
  const pairs = [
    ['currency', order['currency'], found['currency']],
    ['total', order['expectedTotal'], found['total']],
  ] as const;
  for (const [name, recorded, actual] of pairs) {
    if (recorded === undefined || recorded === actual) continue;
    throw new LineFailed(
      `${String(order['channel'])} already has another order ${String(order['externalRef'])}: ` +
        `its ${name} is ${String(actual)}, not ${String(recorded)}.`,
    );
  }
}

/** @returns true when this request moved the order, false when the step was behind it already. */
async function takeStep(api: ApiClient, recorded: RecordedOrder, orderId: string, step: number): Promise<boolean> {
  const path = `/v1/orders/${encodeURIComponent(orderId)}/transitions`;
  const body = { ...recorded.steps[step] };
  const answer = await api.post(path, body, stepKey(recorded, orderId, step));
  if (answer.status === 201) return !answer.replayed;
  if (!isRefusalByState(answer)) throw refusal(`the step to ${body.to}`, answer);
  if ((await stepsBehind(api, recorded, orderId)) > step) return false;
  // A refusal kept under the key can be older than what made it true: ask once more, under a key of today.
  if (!answer.replayed) throw refusal(`the step to ${body.to}`, answer);
  const { version } = await readOrder(api, orderId);
  const again = await api.post(path, body, stepKey(recorded, orderId, step, Number(version)));
  if (again.status === 201) return !again.replayed;
  throw refusal(`the step to ${body.to}`, again);
}

function isRefusalByState({ status, body }: ApiAnswer): boolean {
  return status === 409 && ['already-in-state', 'illegal-transition', 'guard-refused'].includes(String(body['code']));
}

/**
 * How many of the recorded steps the order has behind it, by its history.
 * @throws LineFailed when it went another way.
 */
async function stepsBehind(api: ApiClient, recorded: RecordedOrder, orderId: string): Promise<number> {
  const states = await readStates(api, orderId);
  const steps = recorded.steps.map(({ to }) => to);
  const behind = Math.min(states.length, steps.length);
  if (steps.slice(0, behind).join('\n') === states.slice(0, behind).join('\n')) return behind;
  throw new LineFailed(`order ${orderId} went another way: ${states.join(' → ')} instead of ${steps.join(' → ')}.`);
}

/** The states that an order moved to after the one it was placed in, oldest first. */
async function readStates(api: ApiClient, orderId: string): Promise<string[]> {
  const path = `/v1/orders/${encodeURIComponent(orderId)}/history`;
  const entries: Record<string, unknown>[] = [];
  let cursor: unknown = null;
  do {
    const answer = await api.get(cursor === null ? path : `${path}?cursor=${encodeURIComponent(String(cursor))}`);
    if (answer.status !== 200) throw refusal(`GET ${path}`, answer);
    entries.push(...(Array.isArray(answer.body['data']) ? (answer.body['data'] as Record<string, unknown>[]) : []));
    cursor = answer.body['next'] ?? null;
  } while (cursor !== null);
  // The first entry of an order comes from nowhere: it shows which end of the list is the older one.
  if (entries.length > 1 && (entries.at(-1)?.['from'] ?? null) === null) entries.reverse();
  return entries.filter((entry) => (entry['from'] ?? null) !== null).map((entry) => String(entry['to']));
}

/** Reads one order as it is now. */
export async function readOrder(api: ApiClient, orderId: string): Promise<Record<string, unknown>> {
  const path = `/v1/orders/${encodeURIComponent(orderId)}`;
  const answer = await api.get(path);
  if (answer.status !== 200) throw refusal(`GET ${path}`, answer);
  return answer.body;
}

function refusal(what: string, answer: ApiAnswer): LineFailed {
  return new LineFailed(`${what} was answered ${answer.status} ${detailOf(answer.body)}`);
}

function textOf(body: Record<string, unknown>, member: string): string {
  const value = body[member];
  if (typeof value === 'string') return value;
  throw new LineFailed(`the answer has no "${member}": ${JSON.stringify(body).slice(0, 200)}`);
}
