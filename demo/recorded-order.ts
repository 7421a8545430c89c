import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { canonicalJson } from '../src/common/canonical-json.js';

/** A transition that follows on the order. */
export interface RecordedStep {
  to: string;
  reason?: string;
}

/** One line of a file of recorded orders: a body for `POST /v1/orders`, and the transitions that follow. */
export interface RecordedOrder {
  /** Where it stands, for messages: `line 7`. */
  place: string;
  order: Record<string, unknown>;
  steps: RecordedStep[];
  /** How many equal orders came before it: they are told apart only by this. */
  repetition: number;
}

/** A file that can't be played; nothing was sent. */
export class RecordingError extends Error {}

/**
 * Reads a file of recorded orders, one JSON object `{order, steps}` a line; empty lines don't count. A step is the name
 * of a state, or `{to, reason}`.
 * @throws RecordingError that names the first line that is wrong.
 */
export async function readRecordedOrders(path: string): Promise<RecordedOrder[]> {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(await readFile(path));
  } catch (error) {
    throw new RecordingError(`Can't read ${path}: ${messageOf(error)}`);
  }
  return parseRecordedOrders(text, path);
}

/** The same for a text that is at hand already; `source` is for messages. */
export function parseRecordedOrders(text: string, source: string): RecordedOrder[] {
  const orders: RecordedOrder[] = [];
  const seen = new Map<string, number>();
  text.split('\n').forEach((line, at) => {
    if (line.trim() === '') return;
    const place = `line ${at + 1}`;
    try {
      const recorded = { ...toRecordedOrder(JSON.parse(line)), place, repetition: 0 };
      const content = canonicalJson(recorded.order);
      recorded.repetition = seen.get(content) ?? 0;
      seen.set(content, recorded.repetition + 1);
      orders.push(recorded);
    } catch (error) {
      throw new RecordingError(`${source}, ${place}: ${messageOf(error)}`);
    }
  });
  if (orders.length === 0) throw new RecordingError(`${source} holds no orders.`);
  return orders;
}

/**
 * The key of the order's creation: the same for the same content on every run, whoever runs it, so that a run that was
 * stopped can be repeated.
 */
export function placementKey(recorded: RecordedOrder): string {
  return keyOf('place', canonicalJson(recorded.order), recorded.repetition);
}

/**
 * The key of one step of one order.
 * @param sinceVersion set when an answer kept under the plain key is out of date: the version of the order since then.
 */
export function stepKey(recorded: RecordedOrder, orderId: string, step: number, sinceVersion?: number): string {
  const content = canonicalJson([orderId, step, { ...recorded.steps[step] }]);
  return keyOf('step', content, sinceVersion ?? 'first');
}

function keyOf(kind: string, content: string, salt: number | string): string {
  return `demo-${kind}-${createHash('sha256').update(`${kind}\n${salt}\n${content}`).digest('hex')}`;
}

function toRecordedOrder(value: unknown): Pick<RecordedOrder, 'order' | 'steps'> {
  if (!isObject(value)) throw new RecordingError('it should be an object {"order": …, "steps": […]}.');
  const { order, steps = [] } = value;
  if (!isObject(order)) throw new RecordingError('"order" should be an object, the body for POST /v1/orders.');
  if (!Array.isArray(steps)) throw new RecordingError('"steps" should be a list of states.');
  return { order, steps: steps.map(toStep) };
}

function toStep(value: unknown): RecordedStep {
  if (typeof value === 'string' && value !== '') return { to: value };
  if (isObject(value) && typeof value['to'] === 'string') {
    const { to, reason } = value;
    if (reason === undefined) return { to };
    if (typeof reason === 'string') return { to, reason };
  }
  throw new RecordingError(
    `the step ${JSON.stringify(value)} should be the name of a state, or {"to": …, "reason": …}.`,
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
