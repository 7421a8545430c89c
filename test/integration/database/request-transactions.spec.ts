import { BadRequestException, Controller, Get, Module, Post, Query } from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { DataSource } from 'typeorm';
import { NoQuery } from '../../../src/validation/index.js';
import { DatabaseProbe, InTransaction, TenantTransaction, Tx } from '../../../src/database/index.js';
import { Roles } from '../../../src/identity/index.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { createTestDatabase } from '../../support/database.js';

const ONE = { name: 'one', text: 'SELECT $1::int AS one' };

/** What becomes of the connection, whatever a handler does with its transaction. */
@Controller('v1/readings')
@Roles('viewer', 'operator')
class ReadingsController {
  @Get('unused')
  unused(@Tx() _tx: TenantTransaction, @Query() _query: NoQuery): object {
    return {};
  }

  @Get('isolation')
  async isolation(@Tx() tx: TenantTransaction): Promise<object> {
    const [row] = await tx.manager.query<object[]>(
      `SELECT current_setting('transaction_isolation') AS isolation, current_setting('transaction_read_only') AS "readOnly",
              current_setting('waybill.tenant_id') AS tenant`,
    );
    return row ?? {};
  }

  @Get('thrown')
  async thrown(@Tx() tx: TenantTransaction): Promise<void> {
    await tx.rows(ONE, [1]);
    throw new BadRequestException('after reading');
  }

  @Get('broken')
  async broken(@Tx() tx: TenantTransaction): Promise<object> {
    await tx.adHocRows('SELECT 1/0', []).catch(() => undefined);
    return {};
  }

  @Get('written')
  async written(@Tx() tx: TenantTransaction): Promise<void> {
    await tx.adHocRows(`INSERT INTO waybill.idempotency_policies VALUES (1, '1 day')`, []);
  }

  @Get('afterwards')
  async afterwards(@Tx() tx: TenantTransaction): Promise<object> {
    await tx.rowsBeforeCommit(ONE, [1]);
    return tx.rows(ONE, [2]);
  }

  @Get('at-commit')
  atCommit(@Tx() tx: TenantTransaction): void {
    tx.runAtCommit({ ...ONE, values: [1] });
  }

  @Get('tasks')
  async tasks(@Tx() tx: TenantTransaction, @Query('fail') fail?: string): Promise<object> {
    tx.afterCommit(async () => void done.push(fail ?? 'read'));
    return tx.adHocRows(fail ? 'SELECT 1/0' : 'SELECT 1', []);
  }
}

const done: string[] = [];

@Module({ controllers: [ReadingsController] })
class ReadingsModule {}

describe('the transaction of a request that only reads', () => {
  let service: TestApp;
  const get = async (path: string) => (await service.as('viewer').get(`/v1/readings/${path}`)).status;
  const connections = () => service.app.get(DatabaseProbe, { strict: false }).pool();

  beforeAll(async () => {
    service = await startTestApp({ extensions: [ReadingsModule], env: { DATABASE_POOL_SIZE: '1' } });
  });
  afterAll(() => service.close());

  it('is read only, sees one moment, and is known to TypeORM and the database', async () => {
    const { body } = await service.as('viewer').get('/v1/readings/isolation');
    expect(body).toEqual({ isolation: 'repeatable read', readOnly: 'on', tenant: '1' });
  });

  it('gives its connection back, whatever the handler does', async () => {
    const statuses = [];
    // The pool has one connection: if one of them kept it, the next would wait for ever.
    for (const path of [
      'thrown',
      'broken',
      'written',
      'afterwards',
      'at-commit',
      'unused',
      'unused?x=1',
      'isolation',
    ]) {
      statuses.push(await get(path));
    }
    expect(statuses).toEqual([400, 200, 503, 500, 500, 200, 400, 200]);
    expect(connections()).toMatchObject({ waiting: 0 });
  });

  it('does not begin where nothing is asked', async () => {
    const holder = service.app.get(DataSource, { strict: false }).createQueryRunner();
    await holder.connect();
    try {
      expect([await get('unused'), await get('unused?x=1')]).toEqual([200, 400]);
    } finally {
      await holder.release();
    }
  });

  it('does what was left for the time after its COMMIT, and only then', async () => {
    expect(await get('tasks')).toBe(200);
    expect(await get('tasks?fail=failed')).toBe(500);
    expect(done).toEqual(['read']);
  });
});

@Controller('wrong')
@Roles('operator')
class UnopenedController {
  @Post()
  write(@Tx() _tx: TenantTransaction): void {}
}

@Module({ controllers: [UnopenedController] })
class UnopenedModule {}

@Controller('right')
@Roles('operator')
class OpenedController {
  @Post()
  @InTransaction()
  write(@Tx() tx: TenantTransaction): object {
    return { tenant: tx.context.tenantId };
  }
}

@Module({ controllers: [OpenedController] })
class OpenedModule {}

describe('a handler that writes with @Tx()', () => {
  it('stops the start where nothing opens its transaction, and says what to add', async () => {
    const database = await createTestDatabase();
    await expect(startTestApp({ extensions: [UnopenedModule], database })).rejects.toThrow(
      'UnopenedController.write has @Tx(), but nothing opens a transaction for it. Add @Idempotent()',
    );
    await database.drop();
  });

  it('gets one from @InTransaction()', async () => {
    const service = await startTestApp({ extensions: [OpenedModule] });
    expect(await service.as('operator').post('/right', {})).toMatchObject({ status: 201, body: { tenant: 1 } });
    await service.close();
  });
});
