import { rows } from '../support/sql.js';

/** What was sent under one key and what came back for good. */
export interface StormRecord {
  key: string;
  /** The order that was to be moved; undefined when one was to be placed. */
  orderId: string | undefined;
  sendings: { variant: number; status: number; code: string | undefined; text: string }[];
}

interface Effect {
  key: string;
  variant: string;
  orderId: string;
  version: number;
}

interface StoredKey {
  key: string;
  status: string;
  responseStatus: number;
  body: string;
}

/** Reads the database and says, key by key, what disagrees with the answers. */
export async function findStormFaults(superuserUrl: string, records: readonly StormRecord[]): Promise<string[]> {
  // An event's snapshot says which request it is of: exactly one event for each effect, in history and orders too.
  const effects = await rows<Effect>(
    superuserUrl,
    `SELECT body::jsonb #>> '{snapshot,metadata,storm}' AS key, body::jsonb #>> '{snapshot,metadata,variant}' AS variant,
            split_part(stream, '/', 2) AS "orderId", version::int AS version
     FROM audit.events WHERE body::jsonb #> '{snapshot,metadata}' ? 'storm'`,
  );
  const stored = await rows<StoredKey>(
    superuserUrl,
    `SELECT idempotency_key AS key, status, response_status::int AS "responseStatus",
            convert_from(response_body, 'UTF8') AS body FROM waybill.idempotency_keys`,
  );
  const effectsOf = groupByKey(effects);
  const storedOf = new Map(stored.map((row) => [row.key, row]));
  return [
    ...records.flatMap((record) => faultsOf(record, effectsOf.get(record.key) ?? [], storedOf.get(record.key))),
    ...(await findCountFaults(superuserUrl)),
  ];
}

function faultsOf({ key, sendings, orderId }: StormRecord, effects: Effect[], stored: StoredKey | undefined): string[] {
  const faults: string[] = [];
  const say = (fault: string): number => faults.push(`${key}: ${fault}`);
  const lasting = sendings.filter(({ code }) => code !== 'idempotency-key-reused');
  const texts = new Set(lasting.map(({ text }) => text));
  const variants = new Set(lasting.map(({ variant }) => variant));
  if (texts.size !== 1) say(`${texts.size} different answers`);
  if (variants.size !== 1) say(`${variants.size} different requests were answered`);
  if (!stored) say('has no row');
  else if (stored.status === 'processing') say('is still processing');
  else if (!texts.has(stored.body)) say('the stored answer is not the one that was given');
  const [winner] = lasting;
  const expected = winner?.status === 201 ? 1 : 0;
  if (effects.length !== expected) say(`${effects.length} effects, not ${expected}`);
  const [effect] = effects;
  if (effect && Number(effect.variant) !== winner?.variant) say('the effect is of the other request');
  if (effect && orderId !== undefined && effect.orderId !== orderId) say('the effect is on another order');
  for (const { status, code } of sendings) {
    const isKnown = status === 201 || code === 'idempotency-key-reused' || code === 'illegal-transition';
    if (!isKnown) say(`was answered ${status} ${code ?? ''}`);
  }
  return faults;
}

/** Orders, histories and events, counted against each other. */
async function findCountFaults(superuserUrl: string): Promise<string[]> {
  const [row] = await rows<{ versions: number; histories: number; events: number }>(
    superuserUrl,
    `SELECT (SELECT coalesce(sum(version), 0)::int FROM waybill.orders) AS versions,
            (SELECT count(*)::int FROM waybill.order_status_history) AS histories,
            (SELECT count(*)::int FROM audit.events WHERE stream LIKE 'order/%') AS events`,
  );
  const isEven = row && row.versions === row.histories && row.histories === row.events;
  return isEven ? [] : [`versions, histories and events disagree: ${JSON.stringify(row)}`];
}

function groupByKey(effects: readonly Effect[]): Map<string, Effect[]> {
  const groups = new Map<string, Effect[]>();
  for (const effect of effects) groups.set(effect.key, [...(groups.get(effect.key) ?? []), effect]);
  return groups;
}
