import { withClient } from '../../support/sql.js';
import type { StepRecord, StoryRecord } from './fault-client.js';
import type { PlannedStep } from './fault-plan.js';
import { type Evidence, type OrderEvidence, readEvidence, type StoredKey } from './fault-evidence.js';

/** What must hold whatever struck, each by its name. */
export const INVARIANTS = {
  'every request is settled': 'a lasting answer comes in the end',
  'one answer a key': 'all lasting answers under a key are the same bytes, and the ones that are stored',
  'one order a key': 'a key that was answered 201 has exactly one order, any other none',
  'history as answered': 'a row for each step that was answered 201, in order, ending in the state of the order',
  'events as answered': 'one event a version, without gaps, the last one showing the order as it is',
  'sums add up': 'the order costs what the client asked for, and what its lines say',
  'charged once':
    'the provider’s books have one hold and one capture for each that was answered, and the payment agrees',
  'chain verifies': 'each event’s hash is right and carries the hash before it',
  'each event in the log once':
    'it waits to be sealed or is a leaf, never both and never neither; leaves have no gap, and the last is signed',
  'what is published is kept': 'the published checkpoint is one that the log has',
  'log verifies': 'once all is sealed and published, `waybill audit verify` finds nothing',
  'nothing is stuck': 'no key in progress, no transaction left open, nobody waiting for a lock',
  'no service dies by itself': 'whatever happens to its connections, a process ends only when it is told to',
} as const;
export type Invariant = keyof typeof INVARIANTS;

export interface BrokenInvariant {
  invariant: Invariant;
  /** The key or order that it is about. */
  subject: string;
  detail: string;
}

/** Total of `orderBody`: 2 × 12.99 with 19 % tax and 4.90 for shipping. */
const ASKED_TOTAL = 3582;

const STATE_AFTER: Record<PlannedStep['kind'], string | null> = {
  place: 'pending',
  confirm: 'confirmed',
  ship: 'shipped',
  cancel: 'canceled',
  'deliver too early': null,
  note: null,
  pay: null,
  capture: null,
};
const EXPECTED_STATUS: Record<PlannedStep['kind'], number> = {
  place: 201,
  confirm: 201,
  ship: 201,
  cancel: 201,
  note: 200,
  pay: 201,
  capture: 201,
  'deliver too early': 409,
};

/** Reads the database once everything is quiet, and says which invariant is broken by what. Empty when none is. */
export function findBrokenInvariants(
  superuserUrl: string,
  stories: readonly StoryRecord[],
): Promise<BrokenInvariant[]> {
  return withClient(superuserUrl, async (client) => {
    const keys = stories.flatMap(({ steps }) => steps.map(({ step }) => step.key));
    const evidence = await readEvidence(client, keys);
    return [
      ...stories.flatMap(({ steps }) =>
        steps.flatMap((record) => checkAnswers(record, evidence.keys.get(record.step.key))),
      ),
      ...stories.flatMap((story) => checkStory(story, evidence)),
      ...evidence.stuck.map((detail) => broken('nothing is stuck', 'the database', detail)),
    ];
  });
}

function broken(invariant: Invariant, subject: string, detail: string): BrokenInvariant {
  return { invariant, subject, detail };
}

function checkAnswers({ step, answers, unsettled }: StepRecord, stored: StoredKey | undefined): BrokenInvariant[] {
  const { key, kind } = step;
  const found: BrokenInvariant[] = [];
  if (unsettled !== undefined) found.push(broken('every request is settled', key, `the last answer was ${unsettled}`));
  if (stored?.status === 'processing') found.push(broken('nothing is stuck', key, 'the key is still in progress'));
  const texts = new Set(answers.map(({ text }) => text));
  if (texts.size > 1) found.push(broken('one answer a key', key, `${texts.size} different answers`));
  if (answers.length > 0 && !stored) found.push(broken('one answer a key', key, 'answered, but not stored'));
  if (stored?.body !== undefined && stored.status !== 'processing' && !texts.has(stored.body) && answers.length > 0) {
    found.push(broken('one answer a key', key, 'what is stored is not what was answered'));
  }
  const wrong = answers.find(({ status }) => status !== EXPECTED_STATUS[kind]);
  if (wrong)
    found.push(
      broken('every request is settled', key, `${kind} was answered ${wrong.status} ${wrong.text.slice(0, 200)}`),
    );
  return found;
}

function checkStory({ orderId, steps }: StoryRecord, { orders }: Evidence): BrokenInvariant[] {
  const [placing] = steps;
  if (!placing) return [];
  const { key } = placing.step;
  const made = orders.filter((order) => order.faultKey === key);
  const expected = placing.answers.some(({ status }) => status === 201) ? 1 : 0;
  // Without a lasting answer nobody can say whether there should be one.
  if (made.length !== expected && (placing.unsettled === undefined || made.length > 1)) {
    return [broken('one order a key', key, `${made.length} orders, not ${expected}`)];
  }
  const [order] = made;
  if (!order) return [];
  if (orderId !== null && order.id !== orderId)
    return [broken('one order a key', key, `order ${order.id} was answered as ${orderId}`)];
  const isSettled = steps.every(({ unsettled }) => unsettled === undefined);
  return [...(isSettled ? checkEffects(order, steps) : []), ...checkOrder(order)];
}

/** The order has what was answered, and no more. */
function checkEffects(order: OrderEvidence, steps: readonly StepRecord[]): BrokenInvariant[] {
  const done = steps.filter(({ answers }) => answers.some(({ status }) => status < 300)).map(({ step }) => step.kind);
  // A payment has a stream of its own.
  const succeeded = done.filter((kind) => kind !== 'pay' && kind !== 'capture');
  const states = succeeded.flatMap((kind) => STATE_AFTER[kind] ?? []);
  const found = checkPayments(order, done.includes('pay'), done.includes('capture'));
  const history = order.history.map(({ to }) => to);
  if (history.join() !== states.join()) {
    found.push(
      broken('history as answered', order.id, `history says ${history.join(', ')}; answered was ${states.join(', ')}`),
    );
  }
  if (order.events.length !== succeeded.length) {
    found.push(broken('events as answered', order.id, `${order.events.length} events for ${succeeded.length} changes`));
  }
  if (order.version !== succeeded.length) {
    found.push(broken('events as answered', order.id, `version ${order.version} after ${succeeded.length} changes`));
  }
  return found;
}

function checkPayments(order: OrderEvidence, isPaid: boolean, isCaptured: boolean): BrokenInvariant[] {
  const { id, payments, ledger } = order;
  const expected = [...(isPaid ? [ASKED_TOTAL] : []), ...(isCaptured ? [ASKED_TOTAL] : [])];
  const booked = ledger.map(({ amount }) => amount);
  const found: BrokenInvariant[] = [];
  if (booked.join() !== expected.join()) {
    found.push(
      broken(
        'charged once',
        id,
        `the provider's books say ${JSON.stringify(ledger)}; answered was ${expected.join(', ')}`,
      ),
    );
  }
  const [payment, ...more] = payments;
  const isRight = payment?.authorized === ASKED_TOTAL && payment.captured === (isCaptured ? ASKED_TOTAL : 0);
  if (more.length > 0 || (isPaid ? !isRight : payment !== undefined)) {
    found.push(broken('charged once', id, `payments are ${JSON.stringify(payments)}`));
  }
  return found;
}

/** What holds for an order by itself. */
function checkOrder(order: OrderEvidence): BrokenInvariant[] {
  const found: BrokenInvariant[] = [];
  const { id, history, events } = order;
  const gap = history.findIndex(({ seq }, at) => seq !== at + 1);
  if (gap !== -1) found.push(broken('history as answered', id, `entry ${gap + 1} has the number ${history[gap]?.seq}`));
  if (history.at(-1)?.to !== order.status) {
    found.push(
      broken('history as answered', id, `the order is ${order.status}, its history ends in ${history.at(-1)?.to}`),
    );
  }
  const hole = events.findIndex(({ version }, at) => version !== at + 1);
  if (hole !== -1)
    found.push(broken('events as answered', id, `event ${hole + 1} has the version ${events[hole]?.version}`));
  const last = events.at(-1);
  if (last?.status !== order.status || Number(last?.total) !== order.total) {
    found.push(
      broken(
        'events as answered',
        id,
        `the last event shows ${last?.status}, ${last?.total}; the order is ${order.status}, ${order.total}`,
      ),
    );
  }
  if (order.total !== ASKED_TOTAL)
    found.push(broken('sums add up', id, `costs ${order.total}, asked for was ${ASKED_TOTAL}`));
  if (order.linesTotal !== order.total - order.shipping) {
    found.push(
      broken(
        'sums add up',
        id,
        `lines of ${order.linesTotal} and shipping of ${order.shipping} are not ${order.total}`,
      ),
    );
  }
  for (const { version, isHashRight, isLinked } of events) {
    if (!isHashRight) found.push(broken('chain verifies', id, `the hash of event ${version} is wrong`));
    if (!isLinked)
      found.push(broken('chain verifies', id, `event ${version} does not carry the hash of the one before`));
  }
  return found;
}
