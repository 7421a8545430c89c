import { writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Command } from 'commander';
import { Alarm, ownLog, parseVerifierKey, tiledLog, Watch } from '../../audit/tools.js';
import { parseDuration } from '../../config.js';
import { collect, readTrustedWitnesses } from './options.js';

interface WatchOptions {
  url?: string;
  service?: string;
  vkey: string[];
  note: string;
  witness: string[];
  quorum?: string;
  interval: string;
  stoppedAfter: string;
  once?: boolean;
}

/** That the log misbehaved is proven by the notes; the rest a person has to look at. */
const PROVEN = 1;
const TO_BE_LOOKED_AT = 2;

export function addWatchCommand(audit: Command): void {
  audit
    .command('watch')
    .description("Watch a service's log: keep its checkpoint, and shout when the next one doesn't contain it")
    .option('--url <prefix>', 'prefix of a public log, such as https://orders.example.com/logs/1')
    .option('--service <url>', 'a service whose key is in WAYBILL_API_KEY, for a log that is not public')
    .option('--vkey <key>', 'verifier key of the log, as `waybill audit keys` prints it; repeatable', collect, [])
    .requiredOption('--note <file>', 'where the largest checkpoint seen is kept; another place than the service has')
    .option('--witness <vkey>', 'a witness whose cosignatures count; repeatable', collect, [])
    .option('--quorum <n>', 'how many of the witnesses must have cosigned; all of them without it')
    .option('--interval <time>', 'between two looks', '60s')
    .option('--stopped-after <time>', 'without a larger checkpoint for so long the log has stopped; or never', '24h')
    .option('--once', 'look once and exit, for cron')
    .addHelpText(
      'after',
      '\nExit code: 1 INCONSISTENT, SIZE_BELOW_CHECKPOINT, BAD_SIGNATURE (the note is written beside the kept one);' +
        '\n2 STOPPED, NOT_WITNESSED, UNKNOWN_KEY, and UNREADABLE with --once.',
    )
    .action(async (options: WatchOptions) => {
      try {
        await watch(options);
      } catch (error) {
        process.exitCode = await shout(error, options.note);
      }
    });
}

async function watch(options: WatchOptions): Promise<void> {
  const { vkey, note, interval, stoppedAfter, once } = options;
  if (vkey.length === 0) throw new Error('--vkey is missing: a checkpoint is worth what its key is worth');
  const { witnesses, quorum } = readTrustedWitnesses(options);
  const watched = new Watch({
    log: logOf(options),
    keys: vkey.map((text) => parseVerifierKey(text)),
    witnesses,
    quorum,
    noteFile: note,
    stoppedAfter: stoppedAfter === 'never' ? null : milliseconds('--stopped-after', stoppedAfter),
  });
  const pause = milliseconds('--interval', interval);
  let said = -1;
  for (;;) {
    try {
      const { origin, size, before } = await watched.look();
      if (size !== said)
        console.log(`${new Date().toISOString()} ${origin}: ${size} leaves, all ${before ?? 0} of before among them`);
      said = size;
    } catch (error) {
      if (once || !(error instanceof Alarm) || error.code !== 'UNREADABLE') throw error;
      console.error(`${new Date().toISOString()} ${error.message}`);
    }
    if (once) return;
    await sleep(pause);
  }
}

function logOf({ url, service }: WatchOptions) {
  const given = url ?? service;
  if (given === undefined || (url !== undefined && service !== undefined)) {
    throw new Error('Give --url of a public log, or --service with WAYBILL_API_KEY.');
  }
  if (!URL.canParse(given)) throw new Error(`"${given}" is not an address`);
  const trimmed = given.replace(/\/+$/, '');
  if (url !== undefined) return tiledLog(trimmed);
  const token = process.env.WAYBILL_API_KEY;
  if (!token) throw new Error('WAYBILL_API_KEY is not set. Set it to a key of a user who may read.');
  return ownLog(trimmed, token);
}

function milliseconds(option: string, text: string): number {
  const seconds = parseDuration(text);
  if (seconds === undefined) throw new Error(`${option} must be a time such as 30s, 15m, 24h or 7d, not "${text}"`);
  return seconds * 1000;
}

/** @returns the exit code */
async function shout(error: unknown, noteFile: string): Promise<number> {
  if (!(error instanceof Alarm)) {
    console.error(`unreadable: ${error instanceof Error ? error.message : String(error)}`);
    return TO_BE_LOOKED_AT;
  }
  console.error(`${error.code}: ${error.message}`);
  const isProven = ['INCONSISTENT', 'SIZE_BELOW_CHECKPOINT', 'BAD_SIGNATURE'].includes(error.code);
  if (error.note !== null && isProven) {
    const evidence = `${noteFile}.${new Date().toISOString().replaceAll(':', '')}`;
    await writeFile(evidence, error.note);
    console.error(`What was given is in ${evidence}, what was kept in ${noteFile}. Keep both.`);
  }
  return isProven ? PROVEN : TO_BE_LOOKED_AT;
}
