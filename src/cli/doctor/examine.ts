import { join } from 'node:path';
import type { Client } from 'pg';
import { type Config, ConfigError, type DatabaseAddresses, loadConfig } from '../../config.js';
import { connectFailure } from '../../database/address/connect-failure.js';
import { readSchema } from '../../database/schema/read-schema.js';
import { recordedSchema } from '../../database/schema/recorded-schema.js';
import { lostKey } from '../../signing-key.js';
import { examineSteps } from './applied-steps.js';
import { type Catalogue, forbiddenGrants, readCatalogue } from './catalogue.js';
import { compareSchema } from './compare-schema.js';
import { withClient } from '../../database/client.js';
import { type Finding, fault, hint, ok, unknown } from './finding.js';
import { judgeCheckpoints } from './judge-checkpoints.js';
import { judgeBackups, judgeRoles } from './judge-roles.js';
import * as judge from './judge-schema.js';
import { judgeServer, type ServerFacts, readServer } from './server.js';

const CONNECT_TIMEOUT_MS = 5_000;
const NOT_COMPARED = unknown(
  'tables',
  'Tables, rights and functions were not compared: the database is not that of this version',
  'Migrate it, or look with the version that it is of.',
);

/** Looks at the settings and, when they can be used, at the database behind them. Changes nothing. */
export async function examine(
  open: <T>(work: (database: DatabaseAddresses) => Promise<T>) => Promise<T>,
): Promise<Finding[]> {
  const configuration = examineConfiguration();
  if (!configuration.config) return configuration.findings;
  const { findings, config } = configuration;
  return [...findings, ...(await open((database) => examineDatabase(config, database)))];
}

function examineConfiguration(): { findings: Finding[]; config?: Config } {
  try {
    const config = loadConfig();
    const findings = [ok('settings', `Every setting can be used; Node is ${process.version}.`)];
    const isOpen = config.production && config.host !== '127.0.0.1' && config.metricsPort === null;
    if (isOpen) {
      findings.push(
        hint(
          'settings',
          '/metrics is served beside the API',
          'Set METRICS_PORT, or keep it away from the public in the proxy.',
        ),
      );
    }
    return { findings, config };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { findings: [fault('settings', error.message, 'Correct it; .env.example explains every setting.')] };
  }
}

/** What is to be said of a database, looked at through its three addresses. */
export async function examineDatabase(
  config: Config,
  { appUrl, ownerUrl, sealerUrl }: DatabaseAddresses,
): Promise<Finding[]> {
  const steps = await examineSteps(ownerUrl ?? appUrl, config.allowsNewerDatabase);
  const app = await asRole('DATABASE_URL', appUrl, 'waybill_app', async (client) => {
    const server: ServerFacts = await readServer(client);
    const catalogue: Catalogue = await readCatalogue(client);
    if (catalogue.relations.length === 0) {
      return [fault('migrations', 'The database has no tables of Waybill', 'npx waybill migrate')];
    }
    const comparison = steps.isThisVersion ? compareSchema(await readSchema(client), recordedSchema()) : null;
    return [
      ...judgeServer(server, config.databasePoolSize),
      ...judgeRoles(catalogue),
      ...judge.judgeOwnership(catalogue),
      ...(comparison ? judge.judgeTables(comparison) : [NOT_COMPARED]),
      ...judge.judgeGrants(comparison, await forbiddenGrants(client)),
      ...judge.judgeRowSecurity(catalogue, comparison),
      ...judge.judgeTriggers(catalogue, comparison),
      ...judge.judgeFunctions(catalogue, comparison),
      ...(comparison ? judge.judgeOthers(comparison) : []),
      judgeBackups(catalogue),
    ];
  });
  const noMore = (): Promise<Finding[]> => Promise.resolve([]);
  const owner = await asRole('MIGRATION_DATABASE_URL', ownerUrl, 'waybill_owner', noMore);
  const { checkpointDir: path } = config.audit;
  const isDefault = config.database !== null && path === join(config.dataDir, 'checkpoints');
  const sealer = await asRole('SEALER_DATABASE_URL', sealerUrl, 'waybill_sealer', async (client) => {
    const lost = sealerUrl && (await lostKey(config, sealerUrl));
    return [
      ...(lost ? [fault('signing key', lost.detail, lost.whatToDo)] : []),
      ...(steps.isThisVersion ? await judgeCheckpoints(client, { path, isDefault }) : []),
    ];
  });
  return [...app, ...owner, ...sealer, ...steps.findings];
}

/** Connects as a setting says, and goes on with `work` when it can. */
async function asRole(
  setting: string,
  url: string | null,
  role: string,
  work: (client: Client) => Promise<Finding[]>,
): Promise<Finding[]> {
  if (!url) return [unknown('connection', `${setting} is not set`, `Set it to look at what ${role} needs, too.`)];
  try {
    const config = { connectionString: url, connectionTimeoutMillis: CONNECT_TIMEOUT_MS, statement_timeout: 30_000 };
    return await withClient(config, async (client) => {
      const { rows } = await client.query<{ role: string }>('SELECT current_user AS role');
      return [judgeLogin(setting, role, rows[0]?.role), ...(await work(client))];
    });
  } catch (error) {
    const { detail, whatToDo = 'Check that the server runs, and the address.' } = connectFailure(url, error);
    return [fault('connection', `${setting}: ${detail}`, whatToDo)];
  }
}

function judgeLogin(setting: string, role: string, found: string | undefined): Finding {
  if (found === role) return ok('connection', `${setting} logs in as ${role}.`);
  const detail = `${setting} logs in as ${found}, not as ${role}`;
  return fault('connection', detail, `Set ${setting} to the address of ${role}.`);
}
