import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmod, chown, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { awaitDatabase } from '../../../src/database/await-database.js';
import { withClient } from '../../../src/database/client.js';
import { type OwnPostgres, startOwnPostgres } from '../../support/own-postgres.js';
import { startTcpProxy, type TcpProxy } from '../../support/tcp-proxy.js';
import { eventually } from '../../support/waiting.js';

const isMissing = spawnSync('openssl', ['version']).status !== 0;
const withOpenssl = isMissing && process.env.REQUIRE_OPENSSL !== '1' ? describe.skip : describe;
if (isMissing)
  console.warn('Encrypted addresses are not tried: openssl, which makes the certificates, is not installed.');

describe('an address of', () => {
  let postgres: OwnPostgres;
  let near: TcpProxy;
  let folder: string;
  beforeAll(async () => {
    postgres = await startOwnPostgres();
    near = await startTcpProxy(postgres.port);
    folder = await mkdtemp(join(tmpdir(), 'waybill-certificates-'));
    await chmod(folder, 0o755);
  });
  afterAll(async () => {
    await near.close();
    await postgres.discard();
    await rm(folder, { recursive: true, force: true });
  });

  const address = (hosts: string, query = ''): string => {
    const { username, password } = new URL(postgres.appUrl);
    return `postgres://${username}:${password}@${hosts}/waybill${query}`;
  };
  /** Where a connection came in, and whether it is encrypted. */
  const meet = (connectionString: string) =>
    withClient({ connectionString, connectionTimeoutMillis: 5_000 }, async (client) => {
      const { rows } = await client.query<{ address: string | null; ssl: boolean }>(
        'SELECT inet_server_addr()::text AS address, ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()',
      );
      return rows[0];
    });

  it('a unix socket is connected to', async () => {
    const [row] = await postgres.query<{ folder: string }>(
      `SELECT current_setting('unix_socket_directories') AS folder`,
    );
    const host = encodeURIComponent(row?.folder.replaceAll('"', '') ?? '');
    expect(await meet(address('', `?host=${host}&port=${postgres.port}`))).toEqual({ address: null, ssl: false });
  });

  it('several servers is the one that takes writes, and after a failover the next', async () => {
    const both = address(`127.0.0.1:${near.port},127.0.0.1:${postgres.port}`, '?target_session_attrs=read-write');
    expect(await meet(both)).toBeDefined();
    await near.unplug();
    expect(await meet(both)).toBeDefined();
    await near.plug();
    await postgres.startAsStandby();
    await expect(meet(both)).rejects.toMatchObject({
      message: expect.stringMatching(/^No server of the address takes writes \(127\.0\.0\.1:\d+: .*standby.*; 127/),
      code: '25006',
      whileConnecting: true,
    });
    // What reads only, or lives without, says so.
    expect(await meet(both.replace('read-write', 'any'))).toBeDefined();
    await postgres.query('SELECT pg_promote()');
    await eventually(() => meet(both).catch(() => undefined));
  });

  withOpenssl('a server with a certificate of a private authority', () => {
    beforeAll(async () => {
      const openssl = (...given: string[]) => execFileSync('openssl', given, { cwd: folder, stdio: 'pipe' });
      const made = ['-newkey', 'rsa:2048', '-nodes', '-days', '2'];
      openssl('req', '-x509', ...made, '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=Private Authority');
      openssl(
        'req',
        ...made,
        '-keyout',
        'server.key',
        '-out',
        'server.csr',
        '-subj',
        '/CN=localhost',
        '-addext',
        'subjectAltName=DNS:localhost',
      );
      openssl(
        'x509',
        '-req',
        '-in',
        'server.csr',
        '-CA',
        'ca.pem',
        '-CAkey',
        'ca.key',
        '-CAcreateserial',
        '-days',
        '2',
        '-out',
        'server.pem',
        '-copy_extensions',
        'copy',
      );
      const [row] = await postgres.query<{ data: string }>(`SELECT current_setting('data_directory') AS data`);
      const { uid, gid } = await stat(row?.data ?? '');
      await chmod(join(folder, 'server.key'), 0o600);
      await chown(join(folder, 'server.key'), uid, gid);
      await postgres.query(`ALTER SYSTEM SET ssl_cert_file = '${folder}/server.pem'`);
      await postgres.query(`ALTER SYSTEM SET ssl_key_file = '${folder}/server.key'`);
      await postgres.query('ALTER SYSTEM SET ssl = on');
      await postgres.query('SELECT pg_reload_conf()');
      await eventually(async () => (await meet(at('localhost', '?sslmode=no-verify')).catch(() => undefined))?.ssl);
    });

    const at = (host: string, query: string): string => address(`${host}:${postgres.port}`, query);
    const ca = (): string => `&sslrootcert=${encodeURIComponent(join(folder, 'ca.pem'))}`;

    it.each(['require', 'verify-ca', 'verify-full'])('is met with %s when the authority is named', async (mode) => {
      expect(await meet(at('localhost', `?sslmode=${mode}${ca()}`))).toMatchObject({ ssl: true });
    });

    it('is met under another name only where the name isn’t looked at', async () => {
      expect(await meet(at('127.0.0.1', `?sslmode=verify-ca${ca()}`))).toMatchObject({ ssl: true });
      await expect(awaitDatabase(at('127.0.0.1', `?sslmode=verify-full${ca()}`), () => undefined)).rejects.toThrow(
        'The certificate is for another name',
      );
    });

    it('is refused by `require` alone, which says what to add', async () => {
      await expect(awaitDatabase(at('localhost', '?sslmode=require'), () => undefined)).rejects.toThrow(
        /as waybill_app: .*certificate.*sslrootcert=\/path\/ca\.pem/,
      );
    });
  });
});
