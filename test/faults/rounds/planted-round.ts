import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { QueryResultRow } from 'pg';
import { makeDemoTenants } from '../../../src/identity/index.js';
import { startTestApp } from '../../support/app.js';
import { sealerSettings } from '../../support/audit.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { startRealService } from '../../support/real-service.js';
import { rows } from '../../support/sql.js';
import { type BrokenInvariant, findBrokenInvariants } from './fault-checker.js';
import { liveStory } from './fault-client.js';
import { planRound } from './fault-plan.js';
import { checkLog, findLogFaults, publishedNotes } from './log-check.js';
import type { Plant } from './plants.js';

const CLIENTS = 8;
/** A planted bug is seen in the first round as a rule. */
const MOST_ROUNDS = 4;
/** Longest that a client waits for a lasting answer; some plants let it wait for ever. */
const PATIENCE_MS = 3_000;
/** What is left open or in progress counts as stuck when it is older. */
const QUIET_MS = 1_500;
/** Longest that a round waits for a sealer which the plant may have broken. */
const SEALING_MS = 3_000;

/**
 * Rounds of clients' stories on a service with a bug put in, without any fault beside it, judged as every round is: until
 * what the plant breaks is seen. `npm run faults -- rounds --plant NAME` is the same in the middle of faults.
 */
export async function runPlanted(plant: Plant, seed: number): Promise<BrokenInvariant[]> {
  const settings = await sealerSettings();
  const service = await startPlanted(plant, settings);
  const { appUrl, sealerUrl, superuserUrl } = service.database;
  const log = {
    postgres: { query: <Row extends QueryResultRow>(text: string) => rows<Row>(superuserUrl, text) },
    checkpointDir: settings.AUDIT_CHECKPOINT_DIR,
    auditEnv: { ...settings, DATABASE_URL: appUrl, SEALER_DATABASE_URL: sealerUrl },
  };
  const isAboutWaiting = plant.breaks.includes('nothing is stuck');
  const client = {
    apiKey: service.apiKey,
    address: () => service.baseUrl,
    patienceMs: PATIENCE_MS,
    count: () => undefined,
  };
  const broken: BrokenInvariant[] = [];
  try {
    if (plant.sql) await rows(superuserUrl, plant.sql);
    for (let round = 1; round <= MOST_ROUNDS; round += 1) {
      const plan = planRound(seed, round, CLIENTS).clients.flatMap((stories) => [...stories]);
      const stories = await Promise.all(plan.map((story) => liveStory(story, client)));
      for (const until = Date.now() + SEALING_MS; Date.now() < until; await sleep(20))
        if ((await publishedNotes(log.checkpointDir)).length > 0) break;
      if (isAboutWaiting) await sleep(QUIET_MS);
      broken.push(...(await findBrokenInvariants(superuserUrl, stories)), ...(await findLogFaults(log)));
      if (broken.length === 0) broken.push(...(await checkLog(log)));
      if (broken.some(({ invariant }) => plant.breaks.includes(invariant))) break;
    }
  } finally {
    await service.close();
    await rm(log.checkpointDir, { recursive: true, force: true });
  }
  return broken;
}

interface PlantedService {
  database: TestDatabase;
  baseUrl: string;
  apiKey: string;
  close(): Promise<void>;
}

/** A bug in the database goes with a service of this process, one in the service with a process that imports it. */
async function startPlanted({ imports }: Plant, settings: Record<string, string>): Promise<PlantedService> {
  if (!imports) {
    const app = await startTestApp({ env: settings });
    return { ...app, apiKey: app.as('operator').apiKey ?? '' };
  }
  const database = await createTestDatabase();
  const [tenant] = await makeDemoTenants(database.ownerUrl);
  const service = startRealService({
    env: { ...settings, DATABASE_URL: database.appUrl, SEALER_DATABASE_URL: database.sealerUrl, LOG_LEVEL: 'error' },
    nodeOptions: ['--import', imports],
  });
  return {
    database,
    baseUrl: await service.baseUrl(),
    apiKey: tenant?.keys.operator ?? '',
    close: async () => {
      await service.kill();
      await database.drop();
    },
  };
}
