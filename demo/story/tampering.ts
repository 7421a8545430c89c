import { execFile } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientBase } from 'pg';
import { exportSource, exportSourceWithin, sealerPool, writeExport } from '../../src/audit/index.js';
import { type Chapter, expectAnswer, PromiseBroken, type StoryContext } from './storyteller.js';

const CLI = join(import.meta.dirname, '../../src/cli/main.js');
const SEALING_MS = 60_000;

/** Whoever owns the server can switch every trigger off. The signed history shows it all the same. */
export const tampering: Chapter = {
  title: 'Somebody who owns the server',
  async play({ api, say, order, server, dataDir }) {
    if (!server?.verifierKey) {
      say.does('(The server is not at hand here, or nobody signs its history, so nobody tampers with it.)');
      return;
    }
    const { superuserUrl, tenantId, verifierKey } = server;
    const original = join(dataDir, 'demo-history.ndjson');
    const tampered = join(dataDir, 'demo-tampered.ndjson');
    const leaf = await firstLeaf(api, order.id);
    const pool = sealerPool(superuserUrl, { size: 1 });
    try {
      say.does('An auditor has the history in a file and the public key on a note, and needs no database.');
      await write(await exportSource(pool, tenantId), original);
      say.sees((await verdictOn(original, verifierKey, 0)).join('\n     '));
      const client = await pool.connect();
      try {
        await client.query(`BEGIN; SET LOCAL idle_in_transaction_session_timeout = '5s'`);
        await rewrite(client, `order/${order.id}`);
        say.does('The administrator switches the triggers off, and makes 3582 cents 1582 in the event of her order.');
        await write(await exportSourceWithin(client, tenantId), tampered);
      } finally {
        // Never committed: whatever ends the story here, PostgreSQL itself takes the tampering back.
        await client.query('ROLLBACK').catch(() => undefined);
        client.release(true);
      }
      const found = await verdictOn(tampered, verifierKey, 1);
      const [verdict = '', fault = ''] = found;
      if (!verdict.endsWith(', HASH_MISMATCH') || !fault.endsWith(`(leaf ${leaf}, order/${order.id}, version 1)`)) {
        throw new PromiseBroken(`the verifier named another fault: ${found.join(' ')}`);
      }
      say.sees(`Found, to the event: ${found.join('\n     ')}`);
      await write(await exportSource(pool, tenantId), original);
      await verdictOn(original, verifierKey, 0);
      say.does('(It was one transaction, and it was rolled back. The history verifies again.) See for yourself:');
      say.plain(`     npm run waybill -- audit verify --export ${tampered} --vkey ${verifierKey}`);
    } finally {
      await pool.end();
    }
  },
};

/** Waits until all events of the order are sealed. @returns the place of the first one in the log */
async function firstLeaf(api: StoryContext['api'], orderId: string): Promise<number> {
  for (const end = Date.now() + SEALING_MS; Date.now() < end; await sleep(200)) {
    const { body } = expectAnswer(await api.get(`/v1/orders/${orderId}/events`), 200);
    const leaves = (body['data'] as { logIndex: number | null }[]).map(({ logIndex }) => logIndex);
    if (typeof leaves[0] === 'number' && !leaves.includes(null)) return leaves[0];
  }
  throw new PromiseBroken('the events of the order were not sealed within a minute');
}

/** As nobody but a superuser can. */
async function rewrite(client: ClientBase, stream: string): Promise<void> {
  await client.query('ALTER TABLE audit.events DISABLE TRIGGER ALL');
  const { rowCount } = await client.query(
    `UPDATE audit.events SET body = replace(body, '"total":3582', '"total":1582')
     WHERE stream = $1 AND version = 1 AND position('"total":3582' in body) > 0`,
    [stream],
  );
  if (rowCount !== 1) throw new PromiseBroken('the first event of the order does not say "total":3582');
}

async function write(source: Awaited<ReturnType<typeof exportSource>>, file: string): Promise<void> {
  if (!source) throw new PromiseBroken('the tenant has no log');
  await pipeline(Readable.from(writeExport(source), { objectMode: false }), createWriteStream(file, { mode: 0o600 }));
}

/** What `waybill audit verify` says of an export. @throws PromiseBroken unless it ends with this exit code */
function verdictOn(file: string, verifierKey: string, wanted: number): Promise<string[]> {
  const command = [CLI, 'audit', 'verify', '--export', file, '--vkey', verifierKey];
  return new Promise((resolve, reject) => {
    execFile(process.execPath, command, (error, stdout, stderr) => {
      const code = error ? error.code : 0;
      if (code === wanted)
        resolve(
          stdout
            .trimEnd()
            .split('\n')
            .map((line) => line.trim()),
        );
      else reject(new PromiseBroken(`waybill audit verify ended with ${code}: ${stdout}${stderr}`));
    });
  });
}
