import type { Command } from 'commander';
import { loadConfig } from '../config.js';
import { migrate, migrateDown, migrationStatus } from '../database/migrate.js';
import type { MigrationClass } from '../database/released-steps.js';
import { loadExtensions, migrationsOf } from '../extension-loader.js';
import { withOwnerUrl } from './database-address.js';

export function addMigrateCommand(program: Command): void {
  program
    .command('migrate')
    .description('Bring the database to the newest schema')
    .option('--down', 'take the newest migration back, with its data')
    .option('--status', 'only list the migrations and whether the database has them')
    .action(({ down, status }: { down?: boolean; status?: boolean }) =>
      withOwnerUrl(async (ownerUrl) => {
        const extensions = migrationsOf(await loadExtensions(loadConfig().extensions));
        if (status) await printStatus(ownerUrl, extensions);
        else if (down) console.log(describeDown(await migrateDown(ownerUrl, extensions)));
        else console.log(describeUp(await migrate(ownerUrl, extensions)));
      }),
    );
}

async function printStatus(ownerUrl: string, extensions: readonly MigrationClass[]): Promise<void> {
  for (const { name, applied } of await migrationStatus(ownerUrl, extensions))
    console.log(`${applied ? 'applied' : 'missing'}  ${name}`);
}

function describeUp(applied: readonly string[]): string {
  return applied.length === 0 ? 'The schema is up to date.' : `Applied:\n  ${applied.join('\n  ')}`;
}

function describeDown(name: string | null): string {
  return name ? `Took back ${name}.` : 'There is no migration to take back.';
}
