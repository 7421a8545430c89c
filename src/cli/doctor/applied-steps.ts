import { connectFailure } from '../../database/address/connect-failure.js';
import { appliedSteps, compareSteps } from '../../database/applied-steps.js';
import { withClient } from '../../database/client.js';
import { type Finding, fault, hint, ok, unknown } from './finding.js';

export interface AppliedSteps {
  findings: Finding[];
  /** Whether the database should have the schema of this version: all of its steps, and none of a newer one. */
  isThisVersion: boolean;
}

/**
 * Looks which of Waybill's steps a database has, as the service does at its start. Where nobody can tell, it is taken for one of this
 * version.
 *
 * @param url of any of Waybill's roles
 */
export async function examineSteps(url: string, allowsNewer: boolean): Promise<AppliedSteps> {
  try {
    const config = { connectionString: url, connectionTimeoutMillis: 5_000, statement_timeout: 30_000 };
    const names = await withClient(config, (client) => appliedSteps(async (text) => (await client.query(text)).rows));
    return judgeSteps(names, allowsNewer);
  } catch (error) {
    const { detail } = connectFailure(url, error);
    return { findings: [unknown('migrations', detail, 'Correct the connection first.')], isThisVersion: true };
  }
}

function judgeSteps(applied: readonly string[], allowsNewer: boolean): AppliedSteps {
  const difference = compareSteps(applied);
  const { missing, newer } = difference;
  const findings =
    missing.length === 0
      ? [ok('migrations', 'All of this version are applied.')]
      : [
          fault(
            'migrations',
            `Not applied: ${missing.join(', ')}. The service refuses to start`,
            'npx waybill migrate',
          ),
        ];
  const advice = 'Roll this process on, or look with the `waybill doctor` of that version.';
  const detail = `The database is that of a newer version: ${newer.join(', ')}`;
  if (newer.length > 0 && allowsNewer) findings.push(hint('migrations', detail, advice));
  else if (newer.length > 0) findings.push(fault('migrations', `${detail}. The service refuses to start`, advice));
  return { findings, isThisVersion: missing.length + newer.length === 0 };
}
