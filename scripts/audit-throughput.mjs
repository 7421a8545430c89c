/*
 * What the event trigger costs: orders placed a second with it, without it, and with one global chain instead of one a stream,
 * at 1, 8, 32 and 64 clients: `node scripts/audit-throughput.mjs [--seconds 10] [--rounds 2] [--clients 1,8]`.
 *
 * It needs pgbench (PGBENCH, or on the PATH, or where Debian puts it), starts an embedded PostgreSQL of its own with durable
 * defaults, and takes the variants by turns, so that a machine that is busy elsewhere is busy for each of them.
 */
import { execFileSync, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { importTypeScript } from '../test/support/import-typescript.mjs';

const option = (name, otherwise) =>
  process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : otherwise;
const SECONDS = Number(option('--seconds', '10'));
const ROUNDS = Number(option('--rounds', '2'));
const CLIENTS = option('--clients', '1,8,32,64').split(',').map(Number);
const source = (path) => importTypeScript(new URL(`../${path}`, import.meta.url).href);

function findPgbench() {
  const candidates = [
    process.env.PGBENCH,
    ...'/usr/lib/postgresql/18 /usr/lib/postgresql/17 /usr/lib/postgresql/16 /usr/lib/postgresql/15'
      .split(' ')
      .map((folder) => `${folder}/bin/pgbench`),
    'pgbench',
  ];
  for (const candidate of candidates.filter(Boolean)) {
    try {
      execFileSync(candidate, ['--version']);
      return candidate;
    } catch {
      // not here
    }
  }
  throw new Error('pgbench was not found. Install it, or say where it is: PGBENCH=/path/to/pgbench');
}

const script = (actor) => `
BEGIN;
SELECT waybill.set_context(1, '${actor}', '{operator}', 'bench');
SELECT version FROM waybill.place_order(1, gen_random_uuid(), upper(substr(md5(random()::text), 1, 12)), 'web', NULL, 'c-1', 'EUR',
  7794, 0, 1482, 490, 9766, '{"campaign": "spring"}', ARRAY['TEA-1','TEA-2','TEA-3'], ARRAY['Green','Black','White'],
  ARRAY[2,2,2]::bigint[], ARRAY[1299,1299,1299]::bigint[], ARRAY[0,0,0]::bigint[], ARRAY[190000,190000,190000]::bigint[],
  ARRAY[494,494,494]::bigint[], ARRAY[3092,3092,3092]::bigint[], ARRAY['customer'], ARRAY['{"name":"Ada"}'],
  ARRAY[sha256(convert_to(random()::text, 'UTF8'))]);
COMMIT;
`;

/** One chain for all: each append waits for the one before to commit. */
const GLOBAL_CHAIN = `
CREATE TABLE IF NOT EXISTS audit.global_chain (id int PRIMARY KEY, hash bytea NOT NULL);
INSERT INTO audit.global_chain VALUES (1, sha256('')) ON CONFLICT DO NOTHING;
CREATE OR REPLACE FUNCTION audit.global_append() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  UPDATE audit.global_chain SET hash = sha256(hash || NEW.event_hash) WHERE id = 1;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER events_90_global AFTER INSERT ON audit.events FOR EACH ROW EXECUTE FUNCTION audit.global_append();
ALTER TABLE audit.events DISABLE TRIGGER events_90_global`;

const VARIANTS = {
  'with events': `ALTER TABLE waybill.orders ENABLE TRIGGER orders_50_event_insert; ALTER TABLE audit.events DISABLE TRIGGER events_90_global`,
  'without events': `ALTER TABLE waybill.orders DISABLE TRIGGER orders_50_event_insert`,
  'global chain': `ALTER TABLE waybill.orders ENABLE TRIGGER orders_50_event_insert; ALTER TABLE audit.events ENABLE TRIGGER events_90_global`,
};

function bench(pgbench, url, file, clients, seconds) {
  return new Promise((resolve, reject) => {
    const child = spawn(
      pgbench,
      ['-n', '-M', 'prepared', '-f', file, '-c', clients, '-j', 2, '-T', seconds, url].map(String),
    );
    let out = '';
    child.stdout.on('data', (chunk) => (out += chunk));
    child.stderr.on('data', (chunk) => (out += chunk));
    child.once('exit', () => {
      const tps = Number(/tps = ([\d.]+)/.exec(out)?.[1]);
      if (tps > 0 && !/ERROR/.test(out)) resolve(tps);
      else reject(new Error(out));
    });
  });
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

const pgbench = findPgbench();
const folder = await mkdtemp(join(tmpdir(), 'waybill-throughput-'));
const { startEmbedded, embeddedBinaries, rolePasswords, discardEmbedded } = await source(
  'src/database/embedded/index.ts',
);
const dataDir = join(folder, 'pg');
const server = await startEmbedded({ dataDir, binaries: embeddedBinaries(), log: () => undefined });
try {
  const { bootstrapCluster, migrate } = await source('src/database/index.ts');
  const { makeDemoTenants } = await source('src/identity/index.ts');
  const urls = await bootstrapCluster(server.superuserUrl, 'waybill', await rolePasswords(dataDir));
  await migrate(urls.ownerUrl);
  await makeDemoTenants(urls.ownerUrl);
  const superuser = new pg.Client(Object.assign(new URL(server.superuserUrl), { pathname: '/waybill' }).href);
  await superuser.connect();
  const { rows } = await superuser.query(
    `SELECT id FROM waybill.users WHERE tenant_id = 1 AND subject = 'demo-operator'`,
  );
  const file = join(folder, 'place.sql');
  await writeFile(file, script(rows[0].id));
  await superuser.query(GLOBAL_CHAIN);
  await bench(pgbench, urls.appUrl, file, 8, 3); // warm

  console.log('clients  with events  without events  global chain   with/without  with/global');
  for (const clients of CLIENTS) {
    const rates = Object.fromEntries(Object.keys(VARIANTS).map((variant) => [variant, []]));
    for (let round = 0; round < ROUNDS; round += 1) {
      for (const [variant, set] of Object.entries(VARIANTS)) {
        await superuser.query(set);
        rates[variant].push(await bench(pgbench, urls.appUrl, file, clients, SECONDS));
      }
    }
    const [withEvents, without, global] = Object.values(rates).map(median);
    const columns = [withEvents, without, global].map((rate) => String(Math.round(rate)).padStart(13));
    console.log(
      `${String(clients).padStart(7)}${columns.join('')}${(withEvents / without).toFixed(2).padStart(15)}${(withEvents / global).toFixed(2).padStart(13)}`,
    );
  }
  await superuser.end();
} finally {
  await server.stop();
  await discardEmbedded(dataDir, () => undefined);
  await rm(folder, { recursive: true, force: true });
}
