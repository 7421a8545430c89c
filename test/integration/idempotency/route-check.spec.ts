import {
  Controller,
  Get,
  Module,
  Next,
  Post,
  Redirect,
  Req,
  Res,
  Sse,
  StreamableFile,
  type Type,
} from '@nestjs/common';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { EMPTY, type Observable } from 'rxjs';
import { createApp } from '../../../src/app.js';
import { loadConfig } from '../../../src/config.js';
import { TenantTransaction, Tx } from '../../../src/database/index.js';
import { Idempotent } from '../../../src/idempotency/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

@Controller('wrong')
class RawController {
  @Post()
  @Idempotent()
  raw(@Tx() _tx: TenantTransaction, @Res() reply: FastifyReply): void {
    reply.send('x');
  }
}

@Controller('wrong')
class NextController {
  @Post()
  @Idempotent()
  next(@Tx() _tx: TenantTransaction, @Next() next: () => void): void {
    next();
  }
}

@Controller('wrong')
class StreamController {
  @Post()
  @Idempotent()
  stream(@Tx() _tx: TenantTransaction): StreamableFile {
    return new StreamableFile(Buffer.from('x'));
  }
}

@Controller('wrong')
class SseController {
  @Sse()
  @Post()
  @Idempotent()
  events(@Tx() _tx: TenantTransaction): Observable<string> {
    return EMPTY;
  }
}

@Controller('wrong')
class NoTransactionController {
  @Post()
  @Idempotent()
  nothing(@Req() _request: FastifyRequest): string {
    return 'x';
  }
}

@Controller('wrong')
class ReadingController {
  @Get()
  @Idempotent()
  read(@Tx() _tx: TenantTransaction): string {
    return 'x';
  }
}

@Controller('wrong')
class RedirectController {
  @Post()
  @Redirect('/elsewhere')
  @Idempotent()
  away(@Tx() _tx: TenantTransaction): void {}
}

describe('the start fails with a clear message when @Idempotent() stands on a handler', () => {
  it.each<[string, Type<unknown>, string]>([
    [
      'that takes the raw response',
      RawController,
      'RawController.raw has @Idempotent(), but it takes the response into',
    ],
    ['that calls next itself', NextController, 'NextController.next has @Idempotent(), but it takes the response into'],
    ['that streams', StreamController, 'StreamController.stream has @Idempotent(), but it streams'],
    ['that sends events', SseController, 'SseController.events has @Idempotent(), but it'],
    ['without @Tx()', NoTransactionController, 'Add a parameter `@Tx() tx: TenantTransaction`'],
    ['that only reads', ReadingController, 'ReadingController.read has @Idempotent(), but it only reads'],
    ['that redirects', RedirectController, 'RedirectController.away has @Idempotent(), but its answer is made by'],
  ])('%s', async (_what, controller, message) => {
    @Module({ controllers: [controller] })
    class WrongModule {}
    const { appUrl, ownerUrl, sealerUrl } = database;
    const config = { ...loadConfig({ LOG_LEVEL: 'fatal' }), database: { appUrl, ownerUrl, sealerUrl } };
    const app = await createApp(config, [WrongModule]).catch((error: Error) => error);
    // Hooks run when the app is made ready.
    const fault =
      app instanceof Error
        ? app
        : await app.init().then(
            () => undefined,
            (error: Error) => error,
          );
    if (!(app instanceof Error)) await app.close().catch(() => undefined);
    expect(fault?.message).toContain(message);
  });
});
