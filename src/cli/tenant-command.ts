import type { Command } from 'commander';
import { Administration } from '../identity/administration.js';
import { withOwnerUrl } from './database-address.js';

export function addTenantCommand(program: Command): void {
  const tenant = program.command('tenant').description('Tenants: whose orders, users and keys are kept apart');
  tenant
    .command('create')
    .description('Make a tenant; then give it an administrator with "user create" and "key create"')
    .argument('<slug>', 'short name, of a-z, 0-9 and -')
    .requiredOption('--name <name>', 'name for people')
    .action((slug: string, { name }: { name: string }) =>
      withOwnerUrl(async (ownerUrl) => {
        const id = await new Administration(ownerUrl).createTenant(slug, name);
        console.log(`Made tenant ${slug} with the id ${id}. Its first administrator:`);
        console.log(`  waybill user create admin --tenant ${slug} --name "First administrator" --role admin`);
        console.log(`  waybill key create --tenant ${slug} --user admin --name "first key"`);
      }),
    );
}
