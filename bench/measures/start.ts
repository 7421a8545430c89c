import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Row } from '../report/row.js';
import { residentMegabytes } from '../world/processes.js';
import { BENCH_FOLDER, ROOT } from '../world/folders.js';
import { startArguments, startProgram } from '../world/service.js';
import type { Measure } from './measure.js';

/** `npm start`'s process on a data folder that has been started once: from spawn to ready, PostgreSQL included. */
export const start: Measure = {
  name: 'start',
  run: async ({ options, say }): Promise<Row[]> => {
    const dataDir = join(BENCH_FOLDER, 'start');
    const startOnce = async (): Promise<{ seconds: number; memory: number }> => {
      const began = performance.now();
      const service = await startProgram(startArguments(), {
        WAYBILL_DATA_DIR: dataDir,
        LOG_LEVEL: 'error',
      });
      const seconds = (performance.now() - began) / 1000;
      const memory = residentMegabytes(service.pid);
      await service.stop();
      return { seconds, memory };
    };
    try {
      say('first start');
      const first = await startOnce();
      const warm = [];
      for (let round = 1; round <= options.rounds; round += 1) {
        say(`warm start ${round} of ${options.rounds}`);
        warm.push(await startOnce());
      }
      const commands = [];
      for (let round = 1; round <= options.rounds; round += 1) commands.push(await runCommand(dataDir));
      return [
        {
          measure: 'start of a migrated database, warm: to ready',
          against: '',
          figures: warm.map(({ seconds }) => seconds),
          unit: 's',
          goal: { atMost: 2 },
          details: { 'first start, which makes and migrates it': `${first.seconds.toFixed(1)} s` },
        },
        {
          measure: 'idle memory of the service after a start',
          against: '',
          figures: warm.map(({ memory }) => memory),
          unit: 'MiB',
          goal: { atMost: 200 },
          details: {},
        },
        {
          measure: 'a command on the embedded database, which it starts and stops: waybill audit keys',
          against: '',
          figures: commands,
          unit: 's',
          goal: { atMost: 1.2 },
          details: {},
        },
      ];
    } finally {
      await rm(dataDir, { recursive: true, force: true });
    }
  },
};

/** @returns seconds */
async function runCommand(dataDir: string): Promise<number> {
  const began = performance.now();
  const env = { PATH: process.env.PATH ?? '', WAYBILL_DATA_DIR: dataDir };
  await promisify(execFile)(process.execPath, [join(ROOT, 'dist/src/cli/main.js'), 'audit', 'keys'], { env });
  return (performance.now() - began) / 1000;
}
