import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, chown, cp, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createInterface } from 'node:readline';
import { Client, type QueryResultRow } from 'pg';
import {
  discardEmbedded,
  embeddedBinaries,
  type EmbeddedMajor,
  type EmbeddedServer,
  rolePasswords,
  startEmbedded,
} from '../../src/database/embedded/index.js';
import { makeOwnFolder, removeLeftovers } from '../support/own-folder.js';

const MAJOR = (process.env.TEST_POSTGRES ?? '18') as EmbeddedMajor;
const KIND = 'waybill-embedded';
const IS_ROOT = process.getuid?.() === 0;

/** A folder that was started and stopped once: copying it is quicker than an initdb for each test. */
let madeOnce: string;
let base: string;
let dataDir: string;
let children: ChildProcess[];
let log: string[];

beforeAll(async () => {
  await removeLeftovers(KIND);
  madeOnce = await makeOwnFolder(KIND);
  const options = { dataDir: join(madeOnce, 'pg'), binaries: embeddedBinaries(MAJOR), log: () => undefined };
  await (await startEmbedded(options)).stop();
});

afterAll(() => rm(madeOnce, { recursive: true, force: true }));

beforeEach(async () => {
  base = await makeOwnFolder(KIND);
  dataDir = join(base, 'pg');
  children = [];
  log = [];
});

afterEach(async () => {
  for (const child of children) await kill(child, 'SIGKILL');
  await discardEmbedded(dataDir, () => undefined);
  await rm(base, { recursive: true, force: true });
});

function useMadeCluster(): void {
  execFileSync('cp', ['-a', join(madeOnce, 'pg'), dataDir]);
}

function start(binaries = embeddedBinaries(MAJOR)): Promise<EmbeddedServer> {
  return startEmbedded({ dataDir, binaries, log: (line) => log.push(line) });
}

type Message = { log?: string; server?: EmbeddedServer };

/** A process of its own that uses the server, and what it says. */
function startProcess(): { child: ChildProcess; until: (wanted: (message: Message) => boolean) => Promise<Message> } {
  const script = join(import.meta.dirname, '../support/embedded-process.mjs');
  // A process group of its own, as a shell gives every command on a terminal.
  const child = spawn(process.execPath, [script, dataDir, MAJOR], {
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  children.push(child);
  const heard: Message[] = [];
  const lines = createInterface({ input: child.stdout });
  lines.on('line', (line) => heard.push(JSON.parse(line) as Message));
  const until = async (wanted: (message: Message) => boolean): Promise<Message> => {
    for (;;) {
      const found = heard.find(wanted);
      if (found) return found;
      await once(lines, 'line');
    }
  };
  return { child, until };
}

async function startedProcess(): Promise<{ child: ChildProcess; server: EmbeddedServer }> {
  const { child, until } = startProcess();
  const { server } = await until((message) => message.server !== undefined);
  return { child, server: server! };
}

async function kill(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill(signal);
  await ended;
}

async function query<Row extends QueryResultRow>(url: string, text: string): Promise<Row[]> {
  const client = new Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

async function postmasterPid(): Promise<number> {
  return Number.parseInt(await readFile(join(dataDir, 'cluster/data/postmaster.pid'), 'utf8'), 10);
}

async function isRunning(): Promise<boolean> {
  return stat(join(dataDir, 'cluster/data/postmaster.pid')).then(
    () => true,
    () => false,
  );
}

async function killPostgres(): Promise<void> {
  const pid = await postmasterPid();
  process.kill(pid, 'SIGKILL');
}

/** Makes a table with one committed row; `readMark` finds it again. */
async function leaveMark({ superuserUrl }: EmbeddedServer): Promise<void> {
  await query(superuserUrl, 'CREATE TABLE mark AS SELECT 42 AS answer');
}

async function readMark({ superuserUrl }: EmbeddedServer): Promise<unknown> {
  return (await query<{ answer: number }>(superuserUrl, 'SELECT answer FROM mark'))[0]?.answer;
}

describe('a fresh start', () => {
  test('gives a durable UTF-8 server with checksums, for those who know the password', async () => {
    const server = await start();
    try {
      expect(server).toMatchObject({
        adopted: false,
        serverVersion: expect.stringMatching(new RegExp(`^${MAJOR}\\.`)),
      });
      const settings = ['fsync', 'synchronous_commit', 'full_page_writes', 'data_checksums', 'server_encoding'];
      const columns = settings.map((name) => `current_setting('${name}') AS ${name}`).join();
      expect(await query(server.superuserUrl, `SELECT ${columns}, current_setting('timezone') AS zone`)).toEqual([
        {
          fsync: 'on',
          synchronous_commit: 'on',
          full_page_writes: 'on',
          data_checksums: 'on',
          server_encoding: 'UTF8',
          zone: 'UTC',
        },
      ]);
      const wrong = new URL(server.superuserUrl);
      wrong.password = 'wrong';
      await expect(query(wrong.href, 'SELECT')).rejects.toThrow(/password authentication failed/);
      wrong.password = '';
      await expect(query(wrong.href, 'SELECT')).rejects.toThrow(/password/);
      expect((await stat(join(dataDir, 'cluster/secrets.json'))).mode & 0o777).toBe(0o600);
      const passwords = Object.values(await rolePasswords(dataDir));
      expect(new Set(passwords).size).toBe(3);
    } finally {
      await server.stop();
    }
    expect(await isRunning()).toBe(false);
  });

  test('serves a unix socket beside TCP', async () => {
    const server = await start();
    const url = new URL(server.superuserUrl);
    const client = new Client({
      host: join(dataDir, 'run'),
      port: server.port,
      user: 'postgres',
      password: url.password,
      database: 'postgres',
    });
    await client.connect();
    await client.end();
    await server.stop();
  });

  test('works in a long path with spaces, commas and quotes', async () => {
    dataDir = join(base, `my "own", fine`, 'ü'.repeat(100), 'pg data');
    const server = await start();
    await leaveMark(server);
    await server.stop();
    const again = await start();
    expect(await readMark(again)).toBe(42);
    const shown = await query<{ folder: string }>(
      again.superuserUrl,
      `SELECT trim('"' FROM current_setting('unix_socket_directories')) AS folder`,
    );
    const { folder } = shown[0]!;
    expect(await readdir(folder)).toHaveLength(2); // the socket and its lock
    await again.stop();
    await expect(stat(folder)).rejects.toThrow('ENOENT');
  });

  if (IS_ROOT)
    test('works for root below a private home, binaries included', async () => {
      const home = join(base, 'home');
      await mkdir(home, { mode: 0o700 });
      const binaries = join(home, 'package');
      await cp(embeddedBinaries(MAJOR), binaries, { recursive: true, verbatimSymlinks: true });
      dataDir = join(home, 'pg');
      const server = await start(binaries);
      await leaveMark(server);
      await query(server.superuserUrl, 'SELECT pg_reload_conf()');
      await query(server.superuserUrl, 'CREATE DATABASE another');
      await server.stop();
      const again = await start(binaries);
      expect(await readMark(again)).toBe(42);
      await again.stop();
    });

  test('says what the server said when it cannot start', async () => {
    useMadeCluster();
    await (await start()).stop();
    await appendFile(join(dataDir, 'cluster/data/postgresql.conf'), '\nno_such_setting = 1\n');
    await expect(start()).rejects.toThrow(/did not start[^]*no_such_setting/);
  });

  test('refuses a cluster of another major version, and names both', async () => {
    useMadeCluster();
    await (await start()).stop();
    const other = MAJOR === '18' ? '15' : '18';
    await expect(start(embeddedBinaries(other))).rejects.toThrow(
      `made by PostgreSQL ${MAJOR}, but the installed one is ${other}.`,
    );
  });
});

describe('a second start', () => {
  test('is warm and keeps data and port', async () => {
    useMadeCluster();
    const first = await start();
    await leaveMark(first);
    await first.stop();
    const second = await start();
    expect(second).toMatchObject({ adopted: false, port: first.port });
    expect(await readMark(second)).toBe(42);
    await second.stop();
  });

  test('takes another port when the remembered one is taken', async () => {
    useMadeCluster();
    const first = await start();
    await first.stop();
    const squatter = createServer().listen(first.port, '127.0.0.1');
    await once(squatter, 'listening');
    const second = await start();
    expect(second.port).not.toBe(first.port);
    await second.stop();
    squatter.close();
  });
});

describe('after kill -9', () => {
  test('of Node, the running server is adopted, and stopped by the adopter as its last user', async () => {
    useMadeCluster();
    const { child, server } = await startedProcess();
    await leaveMark(server);
    const pid = await postmasterPid();
    await kill(child, 'SIGKILL');
    const adopted = await start();
    expect(adopted).toMatchObject({ adopted: true, port: server.port });
    expect(await postmasterPid()).toBe(pid);
    expect(await readMark(adopted)).toBe(42);
    await adopted.stop();
    expect(await isRunning()).toBe(false);
  });

  test('of PostgreSQL, the next start recovers everything that was committed', async () => {
    useMadeCluster();
    const first = await start();
    await leaveMark(first);
    await killPostgres();
    const second = await start();
    expect(second.adopted).toBe(false);
    expect(await readMark(second)).toBe(42);
    await Promise.all([first.stop(), second.stop()]);
    expect(await isRunning()).toBe(false);
  });

  test('of a backend, the server can be stopped while it recovers', async () => {
    useMadeCluster();
    const server = await start();
    await leaveMark(server);
    const client = new Client({ connectionString: server.superuserUrl });
    client.on('error', () => undefined);
    await client.connect();
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    process.kill(rows[0]?.pid ?? 0, 'SIGKILL');
    while (!(await readFile(join(dataDir, 'server.log'), 'utf8')).includes('reinitializing')) await sleep(10);
    await server.stop();
    expect(log.join('\n')).not.toContain('does not finish its shutdown');
    const again = await start();
    expect(await readMark(again)).toBe(42);
    await again.stop();
  });

  test('of both, with the pid given to another process since, the stale pid file is seen as such', async () => {
    useMadeCluster();
    const { child, server } = await startedProcess();
    await leaveMark(server);
    await kill(child, 'SIGKILL');
    await killPostgres();
    const owner = await stat(join(dataDir, 'cluster/data'));
    const stranger = spawn('sleep', ['60'], IS_ROOT ? { uid: owner.uid, gid: owner.gid } : {});
    children.push(stranger);
    const file = join(dataDir, 'cluster/data/postmaster.pid');
    await writeFile(file, (await readFile(file, 'utf8')).replace(/^\d+/, String(stranger.pid)));
    const next = await start();
    expect(next.adopted).toBe(false);
    expect(await readMark(next)).toBe(42);
    await next.stop();
    expect(stranger.exitCode ?? stranger.signalCode).toBeNull();
  });

  test.each(['', 'garbage', '0\n', '99999999\n/nowhere\n'])('a pid file of %j is no obstacle', async (text) => {
    useMadeCluster();
    await (await start()).stop();
    const { uid, gid } = await stat(join(dataDir, 'cluster/data'));
    const file = join(dataDir, 'cluster/data/postmaster.pid');
    await writeFile(file, text, { mode: 0o600 });
    if (IS_ROOT) await chown(file, uid, gid);
    await (await start()).stop();
  });

  test('in the middle of initdb, the half-made cluster is dropped and made again', async () => {
    const { child, until } = startProcess();
    await until((message) => message.log?.startsWith('Making a new') ?? false);
    await kill(child, 'SIGKILL');
    expect(await readdir(dataDir)).not.toContain('cluster');
    const server = await start();
    expect(log.join('\n')).toMatch(/Making a new/);
    await leaveMark(server);
    await server.stop();
    expect(await readdir(dataDir)).toEqual(expect.arrayContaining(['cluster', 'run', 'server.log']));
  });
});

describe('several processes on one folder', () => {
  test('that start at once share one server; the last to leave stops it, whoever started it', async () => {
    const users = await Promise.all([startedProcess(), startedProcess(), startedProcess()]);
    const [starter, ...adopters] = users.toSorted((a, b) => Number(a.server.adopted) - Number(b.server.adopted));
    expect(users.map(({ server }) => server.adopted).toSorted()).toEqual([false, true, true]);
    expect(new Set(users.map(({ server }) => server.superuserUrl)).size).toBe(1);
    await leaveMark(starter!.server);
    await kill(starter!.child, 'SIGTERM');
    await kill(adopters[0]!.child, 'SIGKILL'); // a killed one doesn't keep the server up
    expect(await readMark(adopters[1]!.server)).toBe(42);
    await kill(adopters[1]!.child, 'SIGTERM');
    expect(await isRunning()).toBe(false);
  });

  test('stopping twice is stopping once', async () => {
    useMadeCluster();
    const first = await start();
    const second = await start();
    await first.stop();
    await first.stop();
    expect(await query(second.superuserUrl, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await second.stop();
  });
});

test('Ctrl-C reaches Node and not PostgreSQL, so that requests in flight can be finished', async () => {
  useMadeCluster();
  const { child, until } = startProcess();
  const { server } = await until((message) => message.server !== undefined);
  process.kill(-child.pid!, 'SIGINT');
  await until((message) => message.log === 'SIGINT');
  expect(await query(server!.superuserUrl, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  await kill(child, 'SIGTERM');
  expect(await isRunning()).toBe(false);
});
