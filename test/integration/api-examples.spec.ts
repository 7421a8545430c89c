import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ApiClient } from '../support/api-client.js';
import { startTestApp, type TestApp } from '../support/app.js';
import { playAdministration, playAudit, playErasure, playOrders, playPayments } from '../support/api-story.js';
import { sealerSettings } from '../support/audit.js';
import { ExampleRecorder } from '../support/example-recorder.js';
import { rows } from '../support/sql.js';
import { eventually } from '../support/waiting.js';

const RECORDING = join(import.meta.dirname, '../../src/api-document/recorded-examples.json');
describe('the examples of the OpenAPI document', () => {
  let service: TestApp;
  const recorder = new ExampleRecorder();
  beforeAll(async () => {
    service = await startTestApp({ env: await sealerSettings() });
  });
  afterAll(() => service.close());

  const untilAllIsSealed = () =>
    eventually(async () => {
      const [queue] = await rows<{ length: number }>(
        service.database.superuserUrl,
        'SELECT count(*)::int AS length FROM audit.queue WHERE tenant_id = 1',
      );
      return queue?.length === 0;
    });

  it('are what the running service answers; UPDATE_GOLDEN=1 records them again', async () => {
    const as = (role: string) => new ApiClient(service.baseUrl, service.tenants[0].keys[role], recorder.onExchange);
    // What happens is in the log in its order: what the tenant has to tell of itself comes before the first order.
    await untilAllIsSealed();
    await playOrders(recorder, as('operator'));
    await playPayments(recorder, as('operator'), service);
    await untilAllIsSealed();
    await playAudit(recorder, as('auditor'));
    await playErasure(recorder, as('admin'));
    await playAdministration(recorder, as('admin'));
    const recording = recorder.recording();
    if (process.env.UPDATE_GOLDEN === '1') writeFileSync(RECORDING, `${JSON.stringify(recording, null, 2)}\n`);
    expect(recording).toEqual(JSON.parse(readFileSync(RECORDING, 'utf8')));
  });
});
