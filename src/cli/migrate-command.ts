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
    .option(
      '--status',
      'only list the migrations and whether the database has them; those that this version does not know are marked',
    )
    .action(({ down, status }: { down?: boolean; status?: boolean }) =>
      withOwnerUrl(async (ownerUrl) => {
        const config = loadConfig();
        const { allowsNewerDatabase: allowsNewer } = config;
        const extensions = migrationsOf(await loadExtensions(config.extensions));
        if (status) await printStatus(ownerUrl, extensions);
        else if (down) console.log(describeDown(await migrateDown(ownerUrl, extensions)));
        else console.log(describeUp(await migrate(ownerUrl, extensions, { allowsNewer })));
      }),
    );
}

async function printStatus(ownerUrl: string, extensions: readonly MigrationClass[]): Promise<void> {
  for (const { name, applied, isUnknown } of await migrationStatus(ownerUrl, extensions))
    console.log(`${isUnknown ? 'unknown' : applied ? 'applied' : 'missing'}  ${name}`);
}

function describeUp(applied: readonly string[]): string {
  return applied.length === 0 ? 'The schema is up to date.' : `Applied:\n  ${applied.join('\n  ')}`;
}

function describeDown(name: string | null): string {
  return name ? `Took back ${name}.` : 'There is no migration to take back.';
}
