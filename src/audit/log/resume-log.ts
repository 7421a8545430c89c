import { inPoolTransaction } from '../../database/transaction.js';
import { originOf } from '../format/checkpoint.js';
import { publicKeysOf } from '../format/log-keys.js';
import { NoteError } from '../format/signed-note.js';
import type { ResumedBody } from '../verify/key-chain.js';
import { addCheckpoint, appendToLog } from './append-to-log.js';
import { LogStore, nameOf } from './log-store.js';
import { isSameCheckpoint, openCheckpoint, openLog, type OpenLog, verifiersOf } from './open-log.js';
import { publishCheckpoint } from './publish-checkpoint.js';
import type { SealingTools } from './seal-batch.js';
import { keyTexts, startLog } from './start-log.js';
import { TreeReader } from './tree-reader.js';

/**
 * Lets a log go on after its database was restored to an older state, under another name: nothing is ever signed again
 * under the one whose last note the database no longer meets. The first leaf under the new name says so, and names the
 * old one and that note. Whoever verifies the log is told of it, and whoever kept that note sees that it is not met.
 *
 * @param note the published checkpoint that the log no longer meets
 * @returns what the log is called now, and its leaves at the break
 */
export async function resumeLog(
  tools: SealingTools,
  tenantId: number,
  note: string,
): Promise<{ origin: string; size: number }> {
  const resumed = await inPoolTransaction(tools.pool, async (client) => {
    const store = new LogStore(client, tenantId);
    const log = await lockOrStart(store, tools);
    const abandoned = openAbandoned(log, note);
    const isMet =
      abandoned.origin === log.origin &&
      abandoned.size <= log.tree.size &&
      (await new TreeReader(store).root(abandoned.size)).equals(abandoned.root);
    if (isMet) throw new Error(`${log.origin} meets this checkpoint: there is nothing to resume from`);
    const published = await tools.directory?.last(tenantId);
    if (published && !isSameCheckpoint(published.note, note))
      throw new Error(
        `another checkpoint is published, in ${tools.directory?.fileOf(tenantId, published)}: resume from that one`,
      );
    return goOn(store, log, note, abandoned.origin);
  });
  await publishCheckpoint({ ...tools, isFirstPublication: true }, tenantId);
  return resumed;
}

/** A database that was restored to before its first sealing has no log: then it begins here. */
async function lockOrStart(store: LogStore, tools: SealingTools): Promise<OpenLog> {
  const opening = { ...tools, directory: null };
  const name = await store.lock({ wait: true });
  if (name !== null) return openLog(store, name, opening);
  const first = originOf(tools.origin, store.tenantId);
  await store.create(first);
  const log = await openLog(store, first, opening);
  await startLog(store, log);
  return log;
}

/** Opens the note that is left behind, which may be of a generation that the database knows nothing of. */
function openAbandoned({ firstOrigin, keys, keysBefore }: OpenLog, note: string) {
  const origin = note.slice(0, note.indexOf('\n'));
  if (origin !== firstOrigin && generationIn(origin, firstOrigin) === undefined)
    throw new Error(`the checkpoint is of the log ${origin}, not of ${firstOrigin}`);
  try {
    return openCheckpoint(note, verifiersOf(origin, [...keysBefore, publicKeysOf(keys)]));
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    throw new Error(`the checkpoint is not one that the keys of ${firstOrigin} signed: ${error.message}`, {
      cause: error,
    });
  }
}

/** Appends the break as the first leaf of the next name. */
async function goOn(store: LogStore, log: OpenLog, note: string, abandonedOrigin: string) {
  const { firstOrigin, tree, keys, generation } = log;
  const size = tree.size;
  const last = generationIn(abandonedOrigin, firstOrigin) ?? 1;
  const next = Math.max(generation, last) + 1;
  const origin = nameOf({ first: firstOrigin, generation: next });
  const publicKeys = publicKeysOf(keys);
  const snapshot: ResumedBody['snapshot'] = {
    id: store.tenantId,
    origin,
    oldOrigin: log.origin,
    abandoned: note,
    size,
    root: tree.root().toString('hex'),
    ...keyTexts(origin, publicKeys),
  };
  const version = await store.recordLogEvent('log.resumed', snapshot);
  await store.addKeys({ generation: next, validFrom: size, ...publicKeys });
  await appendToLog(store, log, await store.pendingOf(`log/${store.tenantId}`, version));
  await addCheckpoint(store, { ...log, origin, generation: next });
  return { origin, size };
}

/** The number at the end of a log's later name; undefined for another log. */
function generationIn(origin: string, firstOrigin: string): number | undefined {
  const [, digits] = origin.startsWith(`${firstOrigin}/`)
    ? (/^([2-9]|[1-9]\d{1,5})$/.exec(origin.slice(firstOrigin.length + 1)) ?? [])
    : [];
  return digits === undefined ? undefined : Number(digits);
}
