import { Client } from 'pg';
import { type Config, ConfigError, type DatabaseAddresses, loadConfig } from '../../config.js';
import { migrationStatus } from '../../database/index.js';
import { releasedSteps } from '../../database/released-steps.js';
import { type Catalogue, excessiveGrants, missingGrants, readCatalogue } from './catalogue.js';
import { type ExpectedSchema, expectedSchema } from './expected-schema.js';
import { type Finding, fault, hint, ok, unknown } from './finding.js';
import * as judge from './judge-schema.js';
import { judgeServer, type ServerFacts, readServer } from './server.js';

const CONNECT_TIMEOUT_MS = 5_000;

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
  const migrated = await examineMigrations(ownerUrl);
  const app = await asRole('DATABASE_URL', appUrl, 'waybill_app', async (client) => {
    const server: ServerFacts = await readServer(client);
    const catalogue: Catalogue = await readCatalogue(client);
    if (catalogue.relations.length === 0) {
      return [fault('migrations', 'The database has no tables of Waybill', 'npx waybill migrate')];
    }
    const expected = await expectation(migrated.applied);
    return [
      ...judgeServer(server, config.databasePoolSize),
      ...expected.findings,
      ...judge.judgeRoles(catalogue),
      ...judge.judgeOwnership(catalogue),
      ...judge.judgeGrants(await missingGrants(client, expected.schema?.grants ?? []), await excessiveGrants(client)),
      ...judge.judgeRowSecurity(catalogue, expected.schema),
      ...judge.judgeTriggers(catalogue, expected.schema),
      ...judge.judgeFunctions(catalogue, expected.schema),
      judge.judgeBackups(catalogue),
    ];
  });
  const noMore = (): Promise<Finding[]> => Promise.resolve([]);
  const owner = await asRole('MIGRATION_DATABASE_URL', ownerUrl, 'waybill_owner', noMore);
  const sealer = await asRole('SEALER_DATABASE_URL', sealerUrl, 'waybill_sealer', noMore);
  return [...app, ...owner, ...sealer, ...migrated.findings];
}

/** Connects as a setting says, and goes on with `work` when it can. */
async function asRole(
  setting: string,
  url: string | null,
  role: string,
  work: (client: Client) => Promise<Finding[]>,
): Promise<Finding[]> {
  if (!url) return [unknown('connection', `${setting} is not set`, `Set it to look at what ${role} needs, too.`)];
  const client = new Client({
    connectionString: url,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: 30_000,
  });
  // A server that goes away says so as an event, besides the error of the query.
  client.on('error', () => undefined);
  try {
    await client.connect();
    const { rows } = await client.query<{ role: string }>('SELECT current_user AS role');
    const found = rows[0]?.role;
    const connected =
      found === role
        ? ok('connection', `${setting} logs in as ${role}.`)
        : fault(
            'connection',
            `${setting} logs in as ${found}, not as ${role}`,
            `Set ${setting} to the address of ${role}.`,
          );
    return [connected, ...(await work(client))];
  } catch (error) {
    const { host, pathname, username } = new URL(url);
    const detail = `${setting} (${username} at ${host}${pathname}): ${error instanceof Error ? error.message : String(error)}`;
    return [fault('connection', detail, 'Check that the server runs, the address, and the password.')];
  } finally {
    await client.end();
  }
}

async function examineMigrations(
  ownerUrl: string | null,
): Promise<{ findings: Finding[]; applied: Set<string> | null }> {
  if (!ownerUrl) {
    return { findings: [unknown('migrations', 'Not looked at', 'Set MIGRATION_DATABASE_URL.')], applied: null };
  }
  try {
    const status = await migrationStatus(ownerUrl);
    const missing = status.filter(({ applied }) => !applied).map(({ name }) => name);
    const applied = new Set(status.filter((each) => each.applied).map(({ name }) => name));
    const findings =
      missing.length === 0
        ? [ok('migrations', `All ${status.length} are applied.`)]
        : [fault('migrations', `Not applied: ${missing.join(', ')}`, 'npx waybill migrate')];
    return { findings, applied };
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    return { findings: [unknown('migrations', detail, 'Correct the connection first.')], applied: null };
  }
}

/** What the applied migrations made; of all of them where that is not known. */
async function expectation(
  applied: Set<string> | null,
): Promise<{ schema: ExpectedSchema | null; findings: Finding[] }> {
  const known = releasedSteps().filter(({ name }) => applied?.has(name) ?? true);
  try {
    return { schema: await expectedSchema(known.map(({ Migration }) => new Migration())), findings: [] };
  } catch (error) {
    const detail = `What the migrations make could not be read off them: ${error instanceof Error ? error.message : String(error)}`;
    return { schema: null, findings: [unknown('schema', detail, 'Only general rules were checked.')] };
  }
}
