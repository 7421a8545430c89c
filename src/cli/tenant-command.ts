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
  tenant
    .command('log <tenant> <public|private>')
    .description(
      "Let anybody read checkpoint and hashes of a tenant's log at /logs/<id>/, or nobody but its own people",
    )
    .action((name: string, what: string) =>
      withOwnerUrl(async (ownerUrl) => {
        if (what !== 'public' && what !== 'private') throw new Error(`Say public or private, not "${what}".`);
        const id = await new Administration(ownerUrl).setLogPublic(name, what === 'public');
        const where = `/logs/${id}/checkpoint and /logs/${id}/tile/`;
        console.log(what === 'public' ? `Anybody may read ${where} now.` : `${where} answer 404 now.`);
      }),
    );
}
