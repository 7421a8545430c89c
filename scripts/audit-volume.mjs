/*
 * Seals, exports and verifies many events, and reports speed and memory: `node scripts/audit-volume.mjs [--events 1000000]`.
 * It starts an embedded PostgreSQL of its own with durable defaults, in a temporary folder, and takes minutes. Verification runs
 * in processes of their own, from the build, so that the memory is that of the verifier alone.
 */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createWriteStream } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import pg from 'pg';
import { importTypeScript } from '../test/support/import-typescript.mjs';

const ROOT = join(import.meta.dirname, '..');
const events = Number(process.argv[process.argv.indexOf('--events') + 1]) || 1_000_000;
const VERSIONS = 4;
const source = (path) => importTypeScript(new URL(`../${path}`, import.meta.url).href);
const built = (path) => import(new URL(`../dist/src/${path}`, import.meta.url).href);

async function timed(what, count, work) {
  const started = performance.now();
  const cpu = process.cpuUsage();
  const result = await work();
  const { user, system } = process.cpuUsage(cpu);
  const seconds = (performance.now() - started) / 1000;
  const rate = Math.round(count / seconds);
  console.log(
    `${what}: ${seconds.toFixed(1)} s, ${rate.toLocaleString('en-US')} events/s, ${((user + system) / 1e6).toFixed(1)} CPU seconds here${result ? `, ${result}` : ''}`,
  );
}

/** Runs one of the small programs below in a process of its own; it prints what is to be reported. */
function inProcess(program, ...options) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', program, ...options], {
      cwd: ROOT,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let out = '';
    child.stdout.on('data', (chunk) => (out += chunk));
    child.once('exit', (code) => (code === 0 ? resolve(out.trim()) : reject(new Error(`exit code ${code}`))));
  });
}

const REPORT = `
  const { verdict, size, streams, fault } = result;
  const usage = process.resourceUsage();
  const cpu = (usage.userCPUTime + usage.systemCPUTime) / 1e6;
  console.log(verdict + ' ' + (fault?.code ?? '') + size + ' leaves, ' + Math.round(size / cpu) + ' events per CPU second, ' +
    Math.round(usage.maxRSS / 1024) + ' MB at most' + (bytes ? ', ' + (bytes / streams).toFixed(1) + ' bytes a stream' : ''));`;

const VERIFY_EXPORT = `
  import { createReadStream } from 'node:fs';
  const [file, vkey, signatures] = process.argv.slice(1);
  const { verifyExport } = await import('./dist/src/audit/verify/verify-export.js');
  const { parseVerifierKey } = await import('./dist/src/audit/format/signed-note.js');
  const bytes = 0;
  const result = await verifyExport(createReadStream(file, { highWaterMark: 1 << 20 }),
    { trusted: [parseVerifierKey(vkey)], checkSignatures: signatures === 'true' });${REPORT}`;

const VERIFY_DATABASE = `
  const [url, vkey, signatures] = process.argv.slice(1);
  const { verifyDatabase } = await import('./dist/src/audit/verify/verify-database.js');
  const { sealerPool } = await import('./dist/src/audit/log/sealer-pool.js');
  const { parseVerifierKey } = await import('./dist/src/audit/format/signed-note.js');
  const bytes = 0;
  const pool = sealerPool(url, { isPatient: true });
  const result = await verifyDatabase(pool, 1, { trusted: [parseVerifierKey(vkey)], directory: null, skipState: true,
    checkSignatures: signatures === 'true', overdueAfter: 10000, defaultOrigin: 'volume.test/1' });
  await pool.end();${REPORT}`;

const folder = await mkdtemp(join(tmpdir(), 'waybill-volume-'));
const { startEmbedded, embeddedBinaries, rolePasswords, discardEmbedded } = await source(
  'src/database/embedded/index.ts',
);
const dataDir = join(folder, 'pg');
const server = await startEmbedded({ dataDir, binaries: embeddedBinaries(), log: () => undefined });
try {
  const { bootstrapCluster, migrate } = await source('src/database/index.ts');
  const { makeDemoTenants } = await source('src/identity/index.ts');
  const { generateEvents } = await source('test/support/generate-events.ts');
  const urls = await bootstrapCluster(server.superuserUrl, 'waybill', await rolePasswords(dataDir));
  await migrate(urls.ownerUrl);
  await makeDemoTenants(urls.ownerUrl);
  const superuser = new pg.Client(Object.assign(new URL(server.superuserUrl), { pathname: '/waybill' }).href);
  await superuser.connect();
  await timed('generated', events, () =>
    generateEvents(superuser, 1, { streams: events / VERSIONS, versions: VERSIONS }),
  );
  await superuser.end();

  const { sealBatch, publishCheckpoint } = await built('audit/log/seal-batch.js');
  const { sealerPool } = await built('audit/log/sealer-pool.js');
  const { SigningKeys } = await built('audit/log/signing-keys.js');
  const { CheckpointDirectory } = await built('audit/log/checkpoint-directory.js');
  const { exportSource } = await built('audit/log/export-source.js');
  const { writeExport } = await built('audit/verify/write-export.js');
  const { generateSigningKey } = await built('audit/format/signing-key.js');
  const { verifierKeyText } = await built('audit/format/signed-note.js');

  const pool = sealerPool(urls.sealerUrl);
  const keys = new SigningKeys({ pem: generateSigningKey() });
  const tools = { pool, keys, origin: 'volume.test', directory: new CheckpointDirectory(join(folder, 'checkpoints')) };
  await timed('sealed and published', events, async () => {
    while (await sealBatch(tools, 1)) await publishCheckpoint(tools, 1);
  });

  const file = join(folder, 'export.ndjson');
  await timed('exported', events, async () => {
    const samples = [];
    const sampling = setInterval(() => samples.push(process.memoryUsage().rss), 500);
    await pipeline(
      Readable.from(writeExport(await exportSource(pool, 1)), { objectMode: false }),
      createWriteStream(file),
    );
    clearInterval(sampling);
    const mega = samples.map((rss) => Math.round(rss / 2 ** 20));
    const part = (from, to) => Math.max(...mega.slice(Math.floor(from * mega.length), Math.floor(to * mega.length)));
    return `memory at most ${part(0.1, 0.4)} MB in the first part, ${part(0.7, 1)} MB in the last`;
  });
  await pool.end();

  const vkey = verifierKeyText('volume.test/1', keys.current.publicKey);
  for (const signatures of ['false', 'true']) {
    const what = signatures === 'true' ? 'with signatures' : 'hash chain and tree';
    await timed(`export verified, ${what}`, events, () => inProcess(VERIFY_EXPORT, file, vkey, signatures));
    await timed(`database verified, ${what}`, events, () =>
      inProcess(VERIFY_DATABASE, urls.sealerUrl, vkey, signatures),
    );
  }
} finally {
  await server.stop();
  await discardEmbedded(dataDir, () => undefined);
  await rm(folder, { recursive: true, force: true });
}
