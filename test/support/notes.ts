import { randomUUID } from 'node:crypto';
import { Body, Controller, Delete, HttpCode, Module, Param, Patch, Post, Res } from '@nestjs/common';
import { IsString } from 'class-validator';
import type { FastifyReply } from 'fastify';
import { InTransaction, TenantTransaction, Tx } from '../../src/database/index.js';
import { Idempotent } from '../../src/idempotency/index.js';
import { Roles } from '../../src/identity/index.js';
import { rows } from './sql.js';

/*
 * A controller that has nothing to do with orders. What makes it idempotent are three lines: the import of `Idempotent`,
 * the decorator, and the parameter with `@Tx()`.
 */

class NoteBody {
  @IsString()
  text!: string;
}

export interface Note {
  id: string;
  text: string;
}

/** What a test does in the middle of a handler, after it wrote; what it returns other than undefined is the answer. */
type Interference = (tx: TenantTransaction, reply: FastifyReply, note: Note) => unknown;

let interference: Interference | undefined;

/** Sets what happens in the handlers of the notes until the next call. */
export function interfere(next?: Interference): void {
  interference = next;
}

@Controller('v1/notes')
@Roles('operator', 'admin')
export class NotesController {
  @Post()
  @Idempotent({ resource: 'note' })
  async write(
    @Tx() tx: TenantTransaction,
    @Body() { text }: NoteBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<unknown> {
    const note = { id: randomUUID(), text };
    reply.header('location', `/v1/notes/${note.id}`);
    await insert(tx, note);
    return (await interference?.(tx, reply, note)) ?? note;
  }

  @Patch(':id')
  @Idempotent()
  async change(@Tx() tx: TenantTransaction, @Param('id') id: string, @Body() { text }: NoteBody): Promise<Note> {
    await tx.adHocRows('UPDATE waybill.notes SET text = $3 WHERE tenant_id = $1 AND id = $2', [
      tx.context.tenantId,
      id,
      text,
    ]);
    return { id, text };
  }

  @Delete(':id')
  @Idempotent()
  @HttpCode(204)
  async remove(@Tx() tx: TenantTransaction, @Param('id') id: string): Promise<void> {
    await insert(tx, { id: randomUUID(), text: `removed ${id}` });
  }

  /** Without a key. */
  @Post('plain')
  @InTransaction()
  @HttpCode(200)
  async plain(
    @Tx() tx: TenantTransaction,
    @Body() { text }: NoteBody,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<Note> {
    const note = { id: randomUUID(), text };
    await insert(tx, note);
    await interference?.(tx, reply, note);
    return note;
  }
}

@Module({ controllers: [NotesController] })
export class NotesModule {}

async function insert(tx: TenantTransaction, { id, text }: Note): Promise<void> {
  await tx.adHocRows('INSERT INTO waybill.notes (tenant_id, id, text) VALUES ($1, $2, $3)', [
    tx.context.tenantId,
    id,
    text,
  ]);
}

/** The table of the notes, in a test's database. */
export async function createNotesTable(superuserUrl: string): Promise<void> {
  await rows(
    superuserUrl,
    `CREATE TABLE waybill.notes (tenant_id bigint, id uuid, text text NOT NULL, PRIMARY KEY (tenant_id, id));
     GRANT SELECT, INSERT, UPDATE ON waybill.notes TO waybill_app`,
  );
}

/** Every note, as the superuser sees them. */
export async function notes(superuserUrl: string): Promise<string[]> {
  const found = await rows<{ text: string }>(superuserUrl, 'SELECT text FROM waybill.notes ORDER BY text');
  return found.map(({ text }) => text);
}
