import { withClient } from '../../database/client.js';
import { releasedSteps, STEP_NAME } from '../../database/released-steps.js';
import { type Finding, fault, hint, ok, unknown } from './finding.js';

export interface AppliedSteps {
  findings: Finding[];
  /** Whether the database should have the schema of this version: all of its steps, and none of a younger one. */
  isThisVersion: boolean;
}

/** Looks which of Waybill's steps a database has. Where nobody can tell, it is taken for one of this version. */
export async function examineSteps(ownerUrl: string | null): Promise<AppliedSteps> {
  if (!ownerUrl)
    return { findings: [unknown('migrations', 'Not looked at', 'Set MIGRATION_DATABASE_URL.')], isThisVersion: true };
  try {
    return judgeSteps(await appliedNames(ownerUrl));
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    return { findings: [unknown('migrations', detail, 'Correct the connection first.')], isThisVersion: true };
  }
}

function judgeSteps(applied: readonly string[]): AppliedSteps {
  const own = releasedSteps().map(({ name }) => name);
  const missing = own.filter((name) => !applied.includes(name));
  const younger = applied.filter((name) => STEP_NAME.test(name) && !own.includes(name));
  const findings =
    missing.length === 0
      ? [ok('migrations', `All ${own.length} are applied.`)]
      : [fault('migrations', `Not applied: ${missing.join(', ')}`, 'npx waybill migrate')];
  if (younger.length > 0) {
    const detail = `The database is that of a younger version: ${younger.join(', ')}`;
    findings.push(
      hint('migrations', detail, 'Roll this process on, or look with the `waybill doctor` of that version.'),
    );
  }
  return { findings, isThisVersion: missing.length + younger.length === 0 };
}

function appliedNames(ownerUrl: string): Promise<string[]> {
  const config = { connectionString: ownerUrl, connectionTimeoutMillis: 5_000, statement_timeout: 30_000 };
  return withClient(config, async (client) => {
    const known = await client.query<{ exists: boolean }>(
      `SELECT to_regclass('migrations.applied') IS NOT NULL AS exists`,
    );
    if (!known.rows[0]?.exists) return [];
    const { rows } = await client.query<{ name: string }>('SELECT name FROM migrations.applied');
    return rows.map(({ name }) => name);
  });
}
