import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { QueryResultRow } from 'pg';
import { CheckpointDirectory } from '../../../src/audit/log/checkpoint-directory.js';
import { HANG_MS } from '../../support/waiting.js';
import type { BrokenInvariant, Invariant } from './fault-checker.js';

/** Where a log lies, and what a verifier needs to read it. */
export interface LogUnderTest {
  postgres: { query<Row extends QueryResultRow>(text: string): Promise<Row[]> };
  checkpointDir: string;
  /** Settings of `waybill audit verify`. */
  auditEnv: Record<string, string>;
}

const CLI = join(import.meta.dirname, '../../../dist/src/cli/main.js');

/** What must hold at every moment, sealed or not. */
const UNEVEN = `
  WITH events AS (SELECT tenant_id, count(*) AS events FROM audit.events GROUP BY tenant_id),
    leaves AS (SELECT tenant_id, count(*) AS leaves, max(leaf_index) + 1 AS size FROM audit.leaves GROUP BY tenant_id),
    waiting AS (SELECT tenant_id, count(*) AS waiting FROM audit.queue GROUP BY tenant_id),
    signed AS (SELECT tenant_id, max(size) AS signed FROM audit.checkpoints GROUP BY tenant_id),
    found AS (SELECT tenant_id, coalesce(events, 0) AS events, coalesce(leaves, 0) AS leaves, coalesce(size, 0) AS size,
                coalesce(waiting, 0) AS waiting, coalesce(signed, 0) AS signed
              FROM events FULL JOIN leaves USING (tenant_id) FULL JOIN waiting USING (tenant_id) FULL JOIN signed USING (tenant_id))
  SELECT format('tenant %s', tenant_id) AS subject, format('%s events, %s leaves, %s waiting', events, leaves, waiting) AS detail
  FROM found WHERE events <> leaves + waiting
  UNION ALL
  SELECT format('tenant %s', tenant_id), format('%s leaves numbered up to %s, signed up to %s', leaves, size, signed)
  FROM found WHERE leaves <> size OR signed <> size
  UNION ALL
  SELECT format('tenant %s, %s, version %s', tenant_id, stream, version), 'is in the log and waits to be put there'
  FROM audit.queue JOIN audit.leaves USING (tenant_id, stream, version)`;

/** Whether the log holds together as it is, sealed or not: quick, for after each round. */
export async function findLogFaults({ postgres, checkpointDir }: LogUnderTest): Promise<BrokenInvariant[]> {
  const published = await publishedNotes(checkpointDir);
  const uneven = await postgres.query<{ subject: string; detail: string }>(UNEVEN);
  const faults = uneven.map(({ subject, detail }) => broken('each event in the log once', subject, detail));
  for (const { tenantId, note } of published) {
    const known = await postgres.query<{ note: string }>(
      `SELECT note FROM audit.checkpoints WHERE tenant_id = ${tenantId} ORDER BY size DESC LIMIT 100`,
    );
    if (!known.some((checkpoint) => checkpoint.note === note))
      faults.push(broken('what is published is kept', `tenant ${tenantId}`, `the log has no checkpoint ${note}`));
  }
  return faults;
}

/** Waits until everything is sealed, and has the product's own verifier read the whole history, as an auditor would. */
export async function checkLog(world: LogUnderTest): Promise<BrokenInvariant[]> {
  const faults: BrokenInvariant[] = [];
  for (const until = Date.now() + HANG_MS; ; await sleep(100)) {
    const unfinished = await findUnfinished(world);
    if (unfinished.length === 0) break;
    if (Date.now() < until) continue;
    faults.push(...unfinished.map((what) => broken('log verifies', what, `still, after ${HANG_MS / 1000} s of quiet`)));
    break;
  }
  // Nothing waits, so that an event without a leaf is one that nothing will ever seal: with this interval it is overdue at once.
  const { code, output } = await verify({ ...world.auditEnv, AUDIT_SEAL_INTERVAL: '1ms' });
  if (code !== 0)
    faults.push(
      broken('log verifies', 'the log', `waybill audit verify ended with ${code}: ${output.trim().slice(-600)}`),
    );
  return faults;
}

/** What the sealers still have to do. */
async function findUnfinished({ postgres, checkpointDir }: LogUnderTest): Promise<string[]> {
  const published = await publishedNotes(checkpointDir);
  const logs = await postgres.query<{ id: number; waiting: number; note: string }>(`
    SELECT tenant_id::int AS id, (SELECT count(*)::int FROM audit.queue q WHERE q.tenant_id = l.tenant_id) AS waiting,
      (SELECT note FROM audit.checkpoints c WHERE c.tenant_id = l.tenant_id ORDER BY size DESC LIMIT 1) AS note
    FROM audit.logs l`);
  return logs.flatMap(({ id, waiting, note }) => {
    if (waiting > 0) return `${waiting} events of tenant ${id} wait to be sealed`;
    const isPublished = published.some((checkpoint) => checkpoint.tenantId === id && checkpoint.note === note);
    return isPublished ? [] : `the last checkpoint of tenant ${id} is not published`;
  });
}

/** The demo tenants' notes, as anybody would find them. */
export async function publishedNotes(path: string): Promise<{ tenantId: number; note: string }[]> {
  const directory = new CheckpointDirectory(path);
  const notes = await Promise.all([1, 2].map(async (tenantId) => ({ tenantId, last: await directory.last(tenantId) })));
  // That a log began is published before its first leaf is committed.
  return notes.flatMap(({ tenantId, last }) => (last && last.size > 0 ? { tenantId, note: last.note } : []));
}

function broken(invariant: Invariant, subject: string, detail: string): BrokenInvariant {
  return { invariant, subject, detail };
}

function verify(env: Record<string, string>): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [CLI, 'audit', 'verify'],
      { env: { PATH: process.env.PATH, ...env } },
      (error, out, err) => {
        resolve({ code: typeof error?.code === 'number' ? error.code : error ? 1 : 0, output: out + err });
      },
    );
  });
}
