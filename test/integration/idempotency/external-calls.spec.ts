import { randomUUID } from 'node:crypto';
import { Controller, Module, Post } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import {
  CallRecoverer,
  Idempotent,
  IDEMPOTENCY_POLICY,
  type IdempotencyPolicy,
} from '../../../src/idempotency/index.js';
import { Roles } from '../../../src/identity/index.js';
import { ApiClient } from '../../support/api-client.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { createLettersTable, type Letter, letters, LettersModule, postOffice } from '../../support/letters.js';
import { letTimePass } from '../../support/payments.js';
import { rows } from '../../support/sql.js';
import { untilLocked } from '../../support/waiting.js';

@Controller('v1/careless')
@Roles('operator')
class CarelessController {
  @Post()
  @Idempotent({ external: true })
  answer(): object {
    return { forgot: 'the work' };
  }
}

@Module({ controllers: [CarelessController] })
class CarelessModule {}

let service: TestApp;
let other: TestApp;
beforeAll(async () => {
  service = await startTestApp({ extensions: [LettersModule, CarelessModule] });
  await createLettersTable(service.database.superuserUrl);
  other = await startTestApp({ extensions: [LettersModule], database: service.database });
  for (const { app } of [service, other]) await app.get(CallRecoverer, { strict: false }).stop();
});
afterAll(async () => {
  await other.close();
  await service.close();
});

const usual = { ...postOffice };
beforeEach(() => {
  postOffice.calls.splice(0);
});
afterEach(async () => {
  Object.assign(postOffice, { send: usual.send, whileSettling: usual.whileSettling });
  await rows(service.database.superuserUrl, 'DELETE FROM waybill.letters');
});

const first = () => new ApiClient(service.baseUrl, other.tenants[0].keys.operator);
const second = () => other.as('operator');
const write = (client: ApiClient, key: string, text = 'Dear Ada') =>
  client.post<Letter & { code?: string }>('/v1/letters', { text }, { 'idempotency-key': key });
const timePasses = () => letTimePass(service.database.superuserUrl);
const all = () => letters(service.database.superuserUrl);

/** A call that stops until it is let go. */
function stopInCall(): { calling: Promise<void>; letGo: () => void } {
  const [gate, arrival] = [withResolvers(), withResolvers()];
  postOffice.send = async (key) => {
    postOffice.send = usual.send; // whoever comes next isn't stopped
    arrival.resolve();
    await gate.promise;
    return `late stamp of ${key}`;
  };
  return { calling: arrival.promise, letGo: gate.resolve };
}

function withResolvers(): { promise: Promise<void>; resolve: () => void } {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

describe('a request that calls another system', () => {
  it('is answered by what settling made of it, and replayed from then on', async () => {
    const key = randomUUID();
    const answer = await write(first(), key);
    expect(answer).toMatchObject({ status: 201, body: { text: 'Dear Ada', stamp: `stamp of ${key}` } });
    const again = await write(second(), key);
    expect(again.text).toBe(answer.text);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(postOffice.calls).toEqual([key]);
  });

  it('holds no transaction and no connection while it calls', async () => {
    const { calling, letGo } = stopInCall();
    const answer = write(first(), randomUUID());
    await calling;
    const busy = await rows(
      service.database.superuserUrl,
      `SELECT state FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'waybill' AND state <> 'idle'`,
    );
    letGo();
    expect(busy).toEqual([]);
    expect((await answer).status).toBe(201);
  });

  it('is in flight for the same request and reused for another one, from its first transaction on', async () => {
    const key = randomUUID();
    const { calling, letGo } = stopInCall();
    const answer = write(first(), key);
    await calling;
    const same = await write(second(), key);
    expect(same).toMatchObject({ status: 409, body: { code: 'idempotency-key-in-flight' } });
    expect(Number(same.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await write(second(), key, 'Dear Bob')).toMatchObject({
      status: 422,
      body: { code: 'idempotency-key-reused' },
    });
    letGo();
    expect((await answer).status).toBe(201);
    expect(await all()).toHaveLength(1);
  });

  it('does not start without returning its work', async () => {
    const answer = await first().post<{ code: string }>('/v1/careless', {});
    expect(answer).toMatchObject({ status: 500, body: { code: 'internal-error' } });
  });
});

describe('22. a worker that pauses past its lease', () => {
  it('commits nothing when another one took over: with the same key', async () => {
    const key = randomUUID();
    const { calling, letGo } = stopInCall();
    const slow = write(first(), key);
    await calling;
    await timePasses();
    const taken = await write(second(), key);
    expect(taken).toMatchObject({ status: 201, body: { stamp: `stamp of ${key}` } });
    letGo();
    expect(await slow).toMatchObject({ status: 409, body: { code: 'idempotency-key-in-flight' } });
    expect(await all()).toEqual([{ text: 'Dear Ada', stamp: `stamp of ${key}`, settled: 1 }]);
    expect((await write(first(), key)).text).toBe(taken.text);
    // Twice, and under one key, by which the post office can tell.
    expect(postOffice.calls).toEqual([key, key]);
  });

  it('commits nothing when the recoverer took over', async () => {
    const key = randomUUID();
    const { calling, letGo } = stopInCall();
    const slow = write(first(), key);
    await calling;
    await timePasses();
    expect(await other.app.get(CallRecoverer, { strict: false }).recover()).toBe(1);
    letGo();
    expect((await slow).status).toBe(409);
    expect(await all()).toEqual([{ text: 'Dear Ada', stamp: `stamp of ${key}`, settled: 1 }]);
    expect(await write(first(), key)).toMatchObject({ status: 201, body: { stamp: `stamp of ${key}` } });
  });

  it('commits nothing when it paused between its call and its commit', async () => {
    const key = randomUUID();
    const [gate, arrival] = [withResolvers(), withResolvers()];
    postOffice.whileSettling = async () => {
      postOffice.whileSettling = usual.whileSettling;
      arrival.resolve();
      await gate.promise;
    };
    const slow = write(first(), key);
    await arrival.promise;
    await timePasses();
    const taking = write(second(), key); // waits for the letter's row, which the first one still holds
    await untilLocked(service.database.superuserUrl);
    gate.resolve();
    expect((await slow).status).toBe(409);
    expect(await taking).toMatchObject({ status: 201 });
    expect(await all()).toMatchObject([{ settled: 1 }]);
  });

  it('does not even call when it paused before', async () => {
    const policy = service.app.get<IdempotencyPolicy>(IDEMPOTENCY_POLICY, { strict: false });
    const { leaseSeconds } = policy;
    policy.leaseSeconds = 0.001;
    try {
      const answer = await write(first(), randomUUID());
      expect(answer).toMatchObject({ status: 409, body: { code: 'idempotency-key-in-flight' } });
      expect(postOffice.calls).toEqual([]);
    } finally {
      policy.leaseSeconds = leaseSeconds;
    }
    await timePasses();
    expect(await other.app.get(CallRecoverer, { strict: false }).recover()).toBe(1);
  });
});

describe('21. a failure after the call', () => {
  it.each(['40001', '40P01'])('of kind %s repeats the second transaction and not the call', async (sqlstate) => {
    let failures = 0;
    postOffice.whileSettling = async (tx) => {
      failures += 1;
      if (failures > 2) return;
      await tx.adHocRows(`DO $$ BEGIN RAISE EXCEPTION 'by chance' USING ERRCODE = '${sqlstate}'; END $$`, []);
    };
    const key = randomUUID();
    expect((await write(first(), key)).status).toBe(201);
    expect(failures).toBe(3);
    expect(postOffice.calls).toEqual([key]);
    expect(await all()).toMatchObject([{ settled: 1 }]);
  });

  it('that stays leaves the key open: the recoverer ends it', async () => {
    postOffice.whileSettling = async () => {
      postOffice.whileSettling = usual.whileSettling;
      throw new Error('a bug');
    };
    const key = randomUUID();
    expect((await write(first(), key)).status).toBe(500);
    await timePasses();
    expect(await other.app.get(CallRecoverer, { strict: false }).recover()).toBe(1);
    expect(await write(first(), key)).toMatchObject({ status: 201, body: { stamp: `stamp of ${key}` } });
  });
});

describe('a call without a result', () => {
  it('is 503 with Retry-After, is not taken over sooner, and is repeated under the same name', async () => {
    postOffice.send = async () => {
      postOffice.send = usual.send;
      throw new Error('the line is dead');
    };
    const key = randomUUID();
    const answer = await write(first(), key);
    expect(answer).toMatchObject({ status: 503, body: { code: 'unavailable' } });
    expect(answer.text).not.toContain('the line is dead');
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await write(first(), key)).toMatchObject({ status: 409, body: { code: 'idempotency-key-in-flight' } });
    await timePasses();
    expect(await write(first(), key)).toMatchObject({ status: 201, body: { stamp: `stamp of ${key}` } });
    expect(postOffice.calls).toEqual([key, key]);
  });

  it('that never comes ends with the time a call may take, which is shorter than the lease', async () => {
    const policy = service.app.get<IdempotencyPolicy>(IDEMPOTENCY_POLICY, { strict: false });
    let aborted = false;
    postOffice.send = (_key, signal) => {
      signal.addEventListener('abort', () => (aborted = true));
      return new Promise(() => undefined);
    };
    policy.callSeconds = 0.3;
    try {
      expect((await write(first(), randomUUID())).status).toBe(503);
    } finally {
      delete policy.callSeconds;
    }
    expect(aborted).toBe(true);
  });
});
