import { spawn } from 'node:child_process';
import { chown, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A server that is stopped: its program and its data. Counting runs as the user who owns the data. */
export interface StoppedServer {
  postgres: string;
  data: string;
  database: string;
}

/** Calls of the two runs of a case. What is counted is the difference, so that start-up and first plans don't count. */
const FEW = 20;
const MANY = 60;

/**
 * What PostgreSQL executes for one call of a statement, warm, in single-user mode under valgrind's callgrind, as waybill_app.
 *
 * @returns thousands of instructions
 */
export async function countInstructions(server: StoppedServer, statement: string): Promise<number> {
  const few = await run(server, statement, FEW);
  const many = await run(server, statement, MANY);
  return Math.round((many - few) / (MANY - FEW) / 1000);
}

async function run({ postgres, data, database }: StoppedServer, statement: string, calls: number): Promise<number> {
  const { uid, gid } = await stat(data);
  const folder = await mkdtemp(join(tmpdir(), 'waybill-instructions-'));
  await chown(folder, uid, gid);
  try {
    const profile = `--callgrind-out-file=${join(folder, 'callgrind')}`;
    const child = spawn('valgrind', ['--tool=callgrind', profile, postgres, '--single', '-D', data, database], {
      cwd: folder,
      uid,
      gid,
    });
    child.stdin.end(`SET SESSION AUTHORIZATION waybill_app;\n${`${statement}\n`.repeat(calls)}`);
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text: Buffer) => (output += text.toString()));
    await new Promise((resolve, reject) => child.once('error', reject).once('close', resolve));
    const failure = /^.*(?:ERROR|FATAL): .*$/m.exec(output);
    const collected = /Collected : (\d+)/.exec(output);
    if (failure || !collected) throw new Error(`Counting ${statement} failed: ${failure?.[0] ?? output.slice(-500)}`);
    return Number(collected[1]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
