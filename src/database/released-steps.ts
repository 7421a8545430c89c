import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { MigrationInterface, QueryRunner } from 'typeorm';
import { findUp } from './embedded/find-up.js';

/** A migration as TypeORM takes it: its name, or that of its class, ends in its timestamp in milliseconds. */
export type MigrationClass = new () => MigrationInterface;

/** One file of migrations/released, and what takes it back. */
export interface ReleasedStep {
  /** As the database records it, such as `0001-baseline-1764460801000`. */
  name: string;
  Migration: MigrationClass;
}

const STEP = /^\d{4}-[a-z0-9-]+(?<!\.down)\.sql$/;
/** What Waybill's own steps are called, whichever version they are of; extensions' are named like classes. */
export const STEP_NAME = /^\d{4}-[a-z0-9-]+-\d{13}$/;
const FIRST_LINE = /^-- Step \d{4} of (\S+Z)\b/;

/**
 * Waybill's own migrations, in the order in which they run.
 *
 * @param folder where the files are; by default that of this installation
 * @throws Error when the folder is missing, or a file of it isn't what the command for releases writes
 */
export function releasedSteps(folder = releasedFolder()): ReleasedStep[] {
  const files = readdirSync(folder).filter((name) => STEP.test(name));
  return files.toSorted().map((file) => readStep(join(folder, file)));
}

export function releasedFolder(): string {
  const folder = findUp(import.meta.url, 'migrations/released');
  if (!folder) throw new Error('migrations/released is missing from this installation');
  return folder;
}

function readStep(file: string): ReleasedStep {
  const up = readFileSync(file, 'utf8');
  const downFile = file.replace(/\.sql$/, '.down.sql');
  if (!existsSync(downFile)) throw new Error(`${basename(downFile)} is missing: it takes ${basename(file)} back`);
  const down = readFileSync(downFile, 'utf8');
  const made = Date.parse(FIRST_LINE.exec(up)?.[1] ?? '');
  if (Number.isNaN(made)) throw new Error(`The first line of ${basename(file)} doesn't say when it was made`);
  const name = `${basename(file, '.sql')}-${made}`;
  class Step implements MigrationInterface {
    readonly name = name;

    up(db: QueryRunner): Promise<void> {
      return runStatements(db, up, file);
    }

    down(db: QueryRunner): Promise<void> {
      return runStatements(db, down, downFile);
    }
  }
  return { name, Migration: Step };
}

/** Sends the file as it is: PostgreSQL takes any number of statements at once. An error says in which line it is. */
async function runStatements(db: QueryRunner, text: string, file: string): Promise<void> {
  try {
    await db.query(text);
  } catch (error) {
    if (error instanceof Error) error.message = `${basename(file)}${lineOf(text, error)}: ${error.message}`;
    throw error;
  }
}

/** `:<line>`, where PostgreSQL says at which character the fault is. */
export function lineOf(text: string, error: Error): string {
  const position = Number((error as { position?: string }).position ?? Number.NaN);
  return Number.isNaN(position) ? '' : `:${text.slice(0, position - 1).split('\n').length}`;
}
