import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, chown, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from './waiting.js';

const PROGRAM = ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer', '/usr/local/bin/pgbouncer'].find((file) =>
  existsSync(file),
);
/** Debian's `nobody`: PgBouncer doesn't run as root. */
const NOBODY = 65_534;

/** Why there is no PgBouncer to test with; null when there is one. */
export const pgbouncerMissing = PROGRAM
  ? null
  : 'PgBouncer is not installed: "apt-get install pgbouncer" puts it there';

export interface PgBouncer {
  /** `url` with PgBouncer in the place of the server, and nothing that says so. */
  through(url: string): string;
  stop(): Promise<void>;
}

/** In transaction mode with its defaults, but for so few connections that transactions of one client meet several of them. */
export async function startPgBouncer(serverPort: number, urls: readonly string[]): Promise<PgBouncer> {
  const folder = await mkdtemp(join(tmpdir(), 'waybill-pgbouncer-'));
  const port = await freePort();
  const users = urls.map((url) => new URL(url)).map(({ username, password }) => `"${username}" "${password}"\n`);
  await writeFile(join(folder, 'users.txt'), users.join(''));
  await writeFile(
    join(folder, 'pgbouncer.ini'),
    `[databases]\n* = host=127.0.0.1 port=${serverPort}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = ${port}\n` +
      `unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = ${folder}/users.txt\npool_mode = transaction\ndefault_pool_size = 3\n`,
  );
  const isRoot = process.getuid?.() === 0;
  await chmod(folder, 0o755);
  if (isRoot) for (const name of ['users.txt', 'pgbouncer.ini']) await chown(join(folder, name), NOBODY, NOBODY);
  const owner = isRoot ? { uid: NOBODY, gid: NOBODY } : {};
  const child = spawn(PROGRAM ?? '', [join(folder, 'pgbouncer.ini')], {
    stdio: ['ignore', 'ignore', 'pipe'],
    ...owner,
  });
  await isListening(child);
  return {
    through: (url) => Object.assign(new URL(url), { host: `127.0.0.1:${port}` }).href,
    stop: async () => {
      child.kill('SIGQUIT');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function isListening(child: ChildProcess): Promise<void> {
  let said = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (said += text));
  await eventually(() => {
    if (child.exitCode !== null) throw new Error(`PgBouncer ended with ${child.exitCode}: ${said}`);
    return said.includes('process up');
  });
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address ? address.port : 0;
}
