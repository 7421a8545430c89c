import { randomUUID } from 'node:crypto';
import { Body, Controller, Injectable, Module, Post } from '@nestjs/common';
import { IsString } from 'class-validator';
import type { TenantTransaction } from '../../src/database/index.js';
import {
  type ExternalWork,
  type ExternalWorkResumer,
  Idempotent,
  ResumesExternalWork,
  type ResumedWork,
  type UnfinishedCall,
} from '../../src/idempotency/index.js';
import { Roles } from '../../src/identity/index.js';
import { rows } from './sql.js';

/*
 * Letters that are sent through somebody else's post office: a controller with an effect outside the database that has
 * nothing to do with payments.
 */

class LetterBody {
  @IsString()
  text!: string;
}

export interface Letter {
  id: string;
  text: string;
  stamp: string;
}

/** The post office: what a test makes of it. It is given the key under which it knows the letter. */
export const postOffice = {
  /** Keys of the letters that were sent, in order, repetitions included. */
  calls: [] as string[],
  send: async (key: string, _signal: AbortSignal): Promise<string> => `stamp of ${key}`,
  /** In the second transaction, after the letter was stamped. */
  whileSettling: async (_tx: TenantTransaction): Promise<void> => undefined,
};

@Injectable()
@ResumesExternalWork('letter')
export class LetterWork implements ExternalWorkResumer {
  async resume(_tx: TenantTransaction, { resource, providerRef }: UnfinishedCall): Promise<ResumedWork<string>> {
    return this.rest(resource.replace('letter/', ''), providerRef);
  }

  begin(text: string): ExternalWork<string> {
    const id = randomUUID();
    let name = '';
    return {
      prepare: async (tx, key) => {
        await tx.adHocRows('INSERT INTO waybill.letters (tenant_id, id, text) VALUES ($1, $2, $3)', [1, id, text]);
        name = key;
        return { resource: `letter/${id}`, providerRef: name };
      },
      call: (signal) => this.post(name, signal),
      settle: (tx, stamp) => this.settle(tx, id, stamp),
    };
  }

  private rest(id: string, key: string): ResumedWork<string> {
    return { call: (signal) => this.post(key, signal), settle: (tx, stamp) => this.settle(tx, id, stamp) };
  }

  private post(key: string, signal: AbortSignal): Promise<string> {
    postOffice.calls.push(key);
    return postOffice.send(key, signal);
  }

  private async settle(tx: TenantTransaction, id: string, stamp: string) {
    const [letter] = await tx.adHocRows<Letter & Record<string, unknown>>(
      'UPDATE waybill.letters SET stamp = $3, settled = settled + 1 WHERE tenant_id = $1 AND id = $2 RETURNING id, text, stamp',
      [1, id, stamp],
    );
    await postOffice.whileSettling(tx);
    return { status: 201, body: letter ?? {} };
  }
}

@Controller('v1/letters')
@Roles('operator')
export class LettersController {
  constructor(private readonly letters: LetterWork) {}

  @Post()
  @Idempotent({ external: true })
  write(@Body() { text }: LetterBody): ExternalWork<string> {
    return this.letters.begin(text);
  }
}

@Module({ controllers: [LettersController], providers: [LetterWork] })
export class LettersModule {}

/** The table of the letters, in a test's database. */
export async function createLettersTable(superuserUrl: string): Promise<void> {
  await rows(
    superuserUrl,
    `CREATE TABLE waybill.letters (tenant_id bigint, id uuid, text text NOT NULL, stamp text, settled int DEFAULT 0, PRIMARY KEY (tenant_id, id));
     GRANT SELECT, INSERT, UPDATE ON waybill.letters TO waybill_app`,
  );
}

/** Every letter, as the superuser sees them. */
export function letters(superuserUrl: string): Promise<{ text: string; stamp: string | null; settled: number }[]> {
  return rows(superuserUrl, 'SELECT text, stamp, settled FROM waybill.letters ORDER BY text');
}
