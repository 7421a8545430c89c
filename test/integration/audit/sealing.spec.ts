import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { openNote } from '../../../src/audit/format/signed-note.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Sealing, startSealing } from '../../support/audit.js';
import { type Order, orderBody } from '../../support/builders.js';

describe('sealing', () => {
  let service: TestApp;
  let sealing: Sealing;
  beforeAll(async () => {
    service = await startTestApp();
    sealing = await startSealing(service.database);
  });
  afterAll(async () => {
    await sealing.close();
    await service.close();
  });

  it('puts every event of a tenant into its log, signs a checkpoint and publishes it', async () => {
    const operator = service.as('operator');
    for (let count = 0; count < 20; count += 1) {
      const { body } = await operator.post<Order>('/v1/orders', orderBody());
      await operator.post(`/v1/orders/${body.id}/transitions`, { to: 'confirmed' });
    }
    expect(await sealing.seal(1, 7)).toBe(40);
    const note = await sealing.directory.read(1);
    expect(openNote(note ?? '', sealing.trusted).text).toMatch(/^audit\.test\/1\n40\n/);
    expect(await sealing.verify()).toMatchObject({
      verdict: 'intact',
      fault: null,
      size: 40,
      streams: 20,
      unsealed: 0,
    });
  });
});
