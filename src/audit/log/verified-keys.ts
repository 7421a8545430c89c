import { eventHash, signatureMessage } from '../format/event-hash.js';
import { areSameKeys, publicKeysOf } from '../format/log-keys.js';
import { NoteError, parseVerifierKey, verifierOf, verifySignature } from '../format/signed-note.js';
import { KeyChain, type Reign } from '../verify/key-chain.js';
import type { LogEvent, LogStore } from './log-store.js';
import { type KeyHolder, openCheckpoint } from './open-log.js';
import { TreeReader } from './tree-reader.js';

/**
 * Names and keys of a log as its own events tell, and as its last checkpoint covers them: each change is signed by both
 * keys. What the table `audit.keys` says is not believed.
 *
 * @param held the signing keys, which must be the last ones of the log; or null
 * @param vkeys verifier keys that are known from elsewhere; one of them is enough
 * @throws Error when the events don't lead to a key that is known
 */
export async function verifiedKeys(
  store: LogStore,
  held: KeyHolder | null,
  vkeys: readonly string[],
): Promise<readonly Reign[]> {
  const { tenantId } = store;
  const chain = new KeyChain();
  const tree = new TreeReader(store);
  const refuse = (what: string): never => {
    throw new Error(`Tenant ${tenantId}: ${what}. Run \`waybill audit verify\`.`);
  };
  for (const event of await store.logEvents()) {
    const fault = readEvent(chain, tenantId, event, await tree.root(event.index));
    if (fault) refuse(`leaf ${event.index}: ${fault}`);
  }
  const { current } = chain;
  if (!current) return refuse('its log does not begin with the event that names its keys');
  const isKnown = held
    ? areSameKeys(current, publicKeysOf(held.of(tenantId)))
    : vkeys
        .map(parseVerifierKey)
        .some(({ name, rawPublicKey }) =>
          chain.verifiers.some((known) => known.name === name && known.rawPublicKey.equals(rawPublicKey)),
        );
  if (!isKnown)
    throw new Error(
      `Nobody here vouches for the keys of tenant ${tenantId}. Set AUDIT_SIGNING_KEY_FILE to the key in force, or give --vkey with one that you know.`,
    );
  const last = await store.lastCheckpoint();
  if (!last) return refuse('its log has no checkpoint');
  try {
    const { size, root } = openCheckpoint(last.note, [verifierOf(current.origin, current.checkpointKey)]);
    if (size !== (await store.size()) || !root.equals(await tree.root(size)))
      refuse('its last checkpoint is not one of its leaves');
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    refuse(`its last checkpoint: ${error.message}`);
  }
  return chain.reigns;
}

/** @returns what is wrong with it */
function readEvent(chain: KeyChain, tenantId: number, event: LogEvent, root: Buffer): string | null {
  const { index, type, body, sealedUs, signature } = event;
  const isFirst = index === 0;
  if (isFirst !== (type === 'log.started')) return 'the log does not begin where it says';
  const started = isFirst ? chain.start(body) : null;
  const hash = eventHash({ ...event, tenantId, stream: `log/${tenantId}` });
  const key = chain.current?.eventKey;
  if (started || !key) return started?.detail ?? 'the log has not begun';
  if (!verifySignature(key, signatureMessage(hash, sealedUs), signature)) return 'the signature is wrong';
  if (type === 'log.key-rotated') return chain.rotate(body, index, root)?.detail ?? null;
  if (type === 'log.resumed') return chain.resume(body, index, root)?.detail ?? null;
  return null;
}
