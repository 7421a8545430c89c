import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { makeApiKey } from '../../../src/identity/api-key.js';
import { type DemoTenant, makeDemoTenants } from '../../../src/identity/index.js';
import { type Answer, ApiClient } from '../../support/api-client.js';
import { orderBody } from '../../support/builders.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { IdentityProvider } from '../../support/identity-provider.js';
import { type ServiceProcess, startServiceProcess } from '../../support/service-process.js';
import { rows } from '../../support/sql.js';
import { waybill } from '../../support/waybill.js';

describe('secrets and personal data', () => {
  let database: TestDatabase;
  let provider: IdentityProvider;
  let service: ServiceProcess;
  let demo: DemoTenant;
  beforeAll(async () => {
    database = await createTestDatabase();
    provider = await IdentityProvider.start();
    const [first] = await makeDemoTenants(database.ownerUrl);
    if (!first) throw new Error('no demo tenant');
    demo = first;
    const env = { ...provider.env, LOG_LEVEL: 'verbose' };
    service = await startServiceProcess({ databaseUrl: database.appUrl, env });
  });
  afterAll(async () => {
    await service.kill('SIGTERM');
    await provider.close();
    await database.drop();
  });

  it('stay out of the log and of problems, whatever goes wrong with a request', async () => {
    const good = demo.keys.operator ?? '';
    const wrong = makeApiKey(1).text;
    const token = await provider.token();
    const badToken = `${await provider.token({ claims: { sub: 'secret-subject' } })}x`;
    const client = new ApiClient(service.baseUrl, good);
    const person = orderBody({ customer: { ref: 'c-1', name: 'Zacharias Secretperson', email: 'zs@private.test' } });
    const answers: Answer[] = [];
    const ask = async (answer: Promise<Answer>) => answers.push(await answer);

    await ask(client.post('/v1/orders', person));
    await ask(client.post('/v1/orders', { ...person, lines: [] }));
    await ask(client.post('/v1/orders', '{"customer":{"name":"Zacharias Secretperson"'));
    await ask(client.get('/v1/orders', { cookie: 'session=cookie-secret' }));
    await ask(client.get(`/v1/orders?apiKey=${wrong}`));
    await ask(new ApiClient(service.baseUrl, token).get('/v1/orders'));
    for (const text of [wrong, badToken, `${good}x`, 'nonsense-secret']) {
      await ask(new ApiClient(service.baseUrl, text).post('/v1/orders', person));
    }
    // A fault of ours: the statement fails in the database, and the log tells of it.
    await rows(database.superuserUrl, 'REVOKE EXECUTE ON FUNCTION waybill.place_order FROM waybill_app');
    await ask(client.post('/v1/orders', person));
    expect(answers.at(-1)?.status).toBe(500);
    await rows(database.superuserUrl, 'GRANT EXECUTE ON FUNCTION waybill.place_order TO waybill_app');
    // An outage: connections are cut and refused for a moment.
    await rows(
      database.superuserUrl,
      `ALTER ROLE waybill_app IN DATABASE ${database.name} SET statement_timeout = '1ms'`,
    );
    await rows(
      database.superuserUrl,
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'waybill_app'`,
    );
    for (let i = 0; i < 5; i += 1) await ask(client.post('/v1/orders', person));
    await rows(database.superuserUrl, `ALTER ROLE waybill_app IN DATABASE ${database.name} RESET ALL`);

    const log = service.output();
    expect(log).toContain('500 POST /v1/orders');
    const secrets = [
      ...[good, wrong].map((key) => key.slice(key.split('_', 3).join('_').length + 1)),
      ...[token, badToken].flatMap((jwt) => jwt.split('.').slice(1)),
      'secret-subject',
      'nonsense-secret',
      'cookie-secret',
      'Secretperson',
      'zs@private.test',
      new URL(database.appUrl).password,
    ];
    expect(secrets.filter((secret) => log.includes(secret))).toEqual([]);
    const problems = answers.filter(({ status }) => status >= 400).map(({ text }) => text);
    expect(problems.length).toBeGreaterThan(6);
    expect(secrets.filter((secret) => problems.some((text) => text.includes(secret)))).toEqual([]);
  });

  it('stay out of what the start says of bad settings', async () => {
    const secret = 'pa55w0rd-in-address';
    const withPassword = (url: string) => Object.assign(new URL(url), { password: secret }).href;
    const settings: Record<string, string>[] = [
      { DATABASE_URL: `mysql://waybill_app:${secret}@127.0.0.1/waybill` },
      { DATABASE_URL: database.appUrl, MIGRATION_DATABASE_URL: withPassword(database.ownerUrl) },
    ];
    const unreachable = {
      DATABASE_URL: `postgres://waybill_app:${secret}@127.0.0.1:1/x`,
      MIGRATION_DATABASE_URL: `postgres://o:${secret}@127.0.0.1:1/x`,
    };
    // A service waits for its database; a command says that there is none.
    const starts = [
      ...settings.map((env) => ({ env, command: ['serve'] })),
      { env: unreachable, command: ['migrate'] },
    ];
    for (const { env, command } of starts) {
      const { code, stdout, stderr } = await waybill(command, env);
      expect([env, code, `${stdout}${stderr}`.includes(secret)]).toEqual([env, 1, false]);
      expect(`${stdout}${stderr}`.trim()).not.toBe('');
    }
  });
});
