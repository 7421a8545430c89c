import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Controller, Get, Module } from '@nestjs/common';
import { Roles } from '../../../src/identity/index.js';
import { ApiClient } from '../../support/api-client.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import type { ProblemAnswer } from '../../support/builders.js';
import { createTestDatabase } from '../../support/database.js';
import { placeIn } from '../../support/orders.js';
import { rows } from '../../support/sql.js';

@Controller('v1/picking-lists')
class PickingListsController {
  @Get()
  @Roles('picker')
  list() {
    return { data: [] };
  }

  /** Forgotten: neither public nor for any role. */
  @Get('forgotten')
  forgotten() {
    return { data: [] };
  }
}

@Module({ controllers: [PickingListsController] })
class PickingModule {}

describe('roles that an extension brings', () => {
  let service: TestApp;
  beforeAll(async () => {
    const database = await createTestDatabase();
    await rows(
      database.ownerUrl,
      `UPDATE waybill.valid_transitions SET roles = '{warehouse}' WHERE from_state = 'confirmed' AND to_state = 'shipped'`,
    );
    service = await startTestApp({ database, extensions: [PickingModule] });
  });
  afterAll(async () => {
    await service.close();
    await service.database.drop();
  });

  const clientWith = async (...roles: string[]): Promise<ApiClient> => {
    const body = { subject: `with-${roles.join('-')}`, kind: 'service', displayName: 'X', roles };
    const user = await service.as('admin').post<{ id: string }>('/v1/users', body);
    const key = await service.as('admin').post<{ secret: string }>('/v1/api-keys', { userId: user.body.id, name: 'k' });
    return new ApiClient(service.baseUrl, key.body.secret);
  };

  it('are checked for steps by the trigger, and told to the caller', async () => {
    const order = await placeIn(service.as('operator'), 'confirmed');
    const warehouse = await clientWith('viewer', 'warehouse');
    const steps = `/v1/orders/${order.id}/transitions`;
    const refused = await service.as('admin').post<ProblemAnswer>(steps, { to: 'shipped' });
    expect([refused.status, refused.body.code, refused.body.roles]).toEqual([403, 'role-required', ['warehouse']]);
    const { body } = await warehouse.get<{ transitions: { to: string; allowed: boolean }[] }>(steps);
    expect(Object.fromEntries(body.transitions.map(({ to, allowed }) => [to, allowed]))).toEqual({
      shipped: true,
      canceled: false,
    });
    expect((await warehouse.post(steps, { to: 'canceled', reason: 'no' })).status).toBe(403);
    expect((await warehouse.post(steps, { to: 'shipped' })).status).toBe(201);
  });

  it('are checked for routes by the guard', async () => {
    const picker = await clientWith('picker');
    expect((await picker.get('/v1/picking-lists')).status).toBe(200);
    expect((await picker.get('/v1/orders')).status).toBe(403);
    const refused = await service.as('admin').get<ProblemAnswer>('/v1/picking-lists');
    expect([refused.status, refused.body.roles]).toEqual([403, ['picker']]);
    expect((await new ApiClient(service.baseUrl).get('/v1/picking-lists')).status).toBe(401);
  });

  it('leave a route that names none closed to everybody', async () => {
    for (const role of ['viewer', 'admin']) {
      expect((await service.as(role).get('/v1/picking-lists/forgotten')).status).toBe(403);
    }
    expect((await new ApiClient(service.baseUrl).get('/v1/picking-lists/forgotten')).status).toBe(401);
  });
});
