import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Client, type PoolClient } from 'pg';
import { StatementQueue } from '../../../src/database/statement-queue.js';
import { startTestApp, type TestApp } from '../../support/app.js';

describe('statements that leave together', () => {
  let service: TestApp;
  let client: Client;
  let statements: StatementQueue;
  const run = (name: string, text: string, values: unknown[] = []) => statements.run({ name, text, values });
  beforeAll(async () => {
    service = await startTestApp();
    client = new Client(Object.assign({ connectionString: service.database.appUrl }, { pipeline: true }));
    await client.connect();
    statements = new StatementQueue(client as unknown as PoolClient);
  });
  afterAll(async () => {
    await client.end();
    await service.close();
  });

  it('are answered each with its own rows, the first time and prepared', async () => {
    for (const value of [1, 2]) {
      const answers = await Promise.all([
        run('begin', 'BEGIN'),
        run('one', 'SELECT $1::int AS one', [value]),
        run('none', 'SELECT 1 AS never WHERE false'),
        run('two', `SELECT $1::text AS two, NULL AS nothing, '{"a": [1]}'::json AS json`, ['b']),
        run('end', 'COMMIT'),
      ]);
      expect(answers).toEqual([
        { command: 'BEGIN', rows: [] },
        { command: 'SELECT 1', rows: [{ one: value }] },
        { command: 'SELECT 0', rows: [] },
        { command: 'SELECT 1', rows: [{ two: 'b', nothing: null, json: { a: [1] } }] },
        { command: 'COMMIT', rows: [] },
      ]);
    }
  });

  it('fail with the error of the first that fails, and work the next time', async () => {
    const attempt = (value: string) =>
      Promise.allSettled([
        run('begin', 'BEGIN'),
        run('cast', 'SELECT $1::int AS n', [value]),
        run('later', 'SELECT 7 AS n'),
      ]);
    const [begun, ...failed] = await attempt('x');
    expect(begun?.status).toBe('fulfilled');
    const error: unknown = expect.objectContaining({ code: '22P02' });
    expect(failed).toEqual([error, error].map((reason) => ({ status: 'rejected', reason })));
    await run('rollback', 'ROLLBACK');
    const [, cast, later] = await attempt('5');
    expect([cast, later]).toMatchObject([{ value: { rows: [{ n: 5 }] } }, { value: { rows: [{ n: 7 }] } }]);
    await run('rollback', 'ROLLBACK');
  });

  it('never take one name for two statements', async () => {
    await run('mine', 'SELECT 1 AS n');
    await expect(run('mine', 'SELECT 2 AS n')).rejects.toThrow('The prepared statement mine is another one');
    expect((await statements.run({ text: 'SELECT 3 AS n', values: [] })).rows).toEqual([{ n: 3 }]);
    expect(await statements.run({ text: '', values: [] })).toEqual({ command: '', rows: [] });
  });
});
