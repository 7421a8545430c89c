import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import type { Command } from 'commander';
import {
  ensureSigningKey,
  parseVerifierKey,
  parseWitnessKey,
  readSigningKey,
  Witness,
  witnessKeyText,
  type WitnessReport,
  witnessServer,
  WitnessState,
} from '../../audit/tools.js';
import { untilStopped } from '../console.js';
import { collect } from './options.js';

interface WitnessOptions {
  name: string;
  key: string;
  state: string;
  log: string[];
  logs?: string;
  host: string;
  port: string;
}

export function addWitnessCommand(audit: Command): void {
  audit
    .command('witness')
    .description('Run a witness: it cosigns the checkpoints of logs, and never two that contradict each other')
    .requiredOption('--name <name>', 'its name for ever, such as witness.example.com/w1')
    .requiredOption('--key <file>', 'PEM file of its Ed25519 key; it is made when it is not there')
    .requiredOption('--state <folder>', 'where it remembers what it cosigned: as precious as the key')
    .option(
      '--log <vkey>',
      'verifier key of a log to witness, as `waybill audit keys` prints it; repeatable',
      collect,
      [],
    )
    .option('--logs <file>', 'a file with such keys, one a line; read again at every request')
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--port <port>', 'port to listen on', '3010')
    .addHelpText(
      'after',
      '\nPOST /add-checkpoint and GET /<SHA-256 of the origin>/checkpoint, as https://c2sp.org/tlog-witness says.',
    )
    .action(runWitness);
}

async function runWitness({ name, key: file, state: folder, log, logs, host, port }: WitnessOptions): Promise<void> {
  if (log.length === 0 && logs === undefined)
    throw new Error('Give --log or --logs: a witness knows whose logs it signs.');
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) throw new Error(`--port must be a port, not "${port}"`);
  if (await ensureSigningKey(file)) console.error(`Made a new key: ${file}`);
  const { privateKey, publicKey } = readSigningKey({ file });
  const vkey = witnessKeyText(name, publicKey);
  const own = parseWitnessKey(vkey);
  const given = log.map((text) => parseVerifierKey(text));
  const known = async () => (logs === undefined ? given : [...given, ...(await readLogs(logs))]);
  await known();

  const state = await WitnessState.open(folder, own);
  const server = witnessServer(new Witness({ name, privateKey, rawPublicKey: publicKey }, known, state), report);
  try {
    server.listen(Number(port), host);
    await once(server, 'listening');
    const { port: found } = server.address() as AddressInfo;
    console.log(`The witness answers at http://${host.includes(':') ? `[${host}]` : host}:${found}`);
    console.log(`Its verifier key: ${vkey}`);
    await untilStopped(() => undefined);
  } finally {
    server.close();
    server.closeIdleConnections();
    await state.close();
  }
}

/** @throws Error that names the line */
async function readLogs(file: string) {
  const lines = (await readFile(file, 'utf8')).split('\n').map((line) => line.trim());
  return lines.flatMap((line, at) => {
    if (line === '' || line.startsWith('#')) return [];
    try {
      return [parseVerifierKey(line)];
    } catch (error) {
      throw new Error(`${file}, line ${at + 1}: ${error instanceof Error ? error.message : String(error)}`, {
        cause: error,
      });
    }
  });
}

/** One line a request: what somebody needs who looks for a log that misbehaves. */
function report({ method, path, status, origin, error }: WitnessReport): void {
  const line = [new Date().toISOString(), method, path, status, origin ?? '', error?.message ?? ''];
  console.error(line.join(' ').trim());
}
