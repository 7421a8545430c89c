import { type Command, Option } from 'commander';
import { Administration } from '../identity/administration.js';
import { withOwnerUrl } from './database-address.js';
import { table } from './table.js';

interface CreateOptions {
  tenant: string;
  name: string;
  role: string[];
  kind: 'human' | 'service';
}

export function addUserCommand(program: Command): void {
  const user = program.command('user').description('Users of a tenant: people and services');
  user
    .command('create')
    .description('Make a user')
    .argument('<subject>', 'unique in the tenant; for a person who comes with a token, the token’s sub')
    .requiredOption('--tenant <tenant>', 'slug or id')
    .requiredOption('--name <name>', 'name for people')
    .option('--role <roles...>', 'viewer, operator, admin, auditor, or one that an extension names', [])
    .addOption(new Option('--kind <kind>', 'what it is').choices(['human', 'service']).default('service'))
    .action((subject: string, { tenant, name, role, kind }: CreateOptions) =>
      withOwnerUrl(async (ownerUrl) => {
        const made = { subject, kind, displayName: name, roles: role };
        const { user: created, unknownRoles } = await new Administration(ownerUrl).createUser(tenant, made);
        console.log(`Made user ${subject} with ${created.roles.join(', ') || 'no role'}.`);
        if (unknownRoles.length > 0) {
          console.log(`No workflow names ${unknownRoles.join(', ')} yet: until one does, that allows nothing.`);
        }
      }),
    );
  user
    .command('list')
    .description('List the users of a tenant, newest first')
    .requiredOption('--tenant <tenant>', 'slug or id')
    .action(({ tenant }: { tenant: string }) =>
      withOwnerUrl(async (ownerUrl) => {
        const users = await new Administration(ownerUrl).listUsers(tenant);
        const rows = users.map(({ subject, kind, roles, displayName, disabledAt }) => [
          subject,
          kind,
          roles.join(','),
          disabledAt ? 'disabled' : 'active',
          displayName,
        ]);
        console.log(table(['SUBJECT', 'KIND', 'ROLES', 'STATE', 'NAME'], rows));
      }),
    );
  user
    .command('disable')
    .description('Refuse a user’s keys and tokens, within five seconds')
    .argument('<subject>')
    .requiredOption('--tenant <tenant>', 'slug or id')
    .option('--force', 'also the tenant’s last administrator', false)
    .action((subject: string, { tenant, force }: { tenant: string; force: boolean }) =>
      withOwnerUrl(async (ownerUrl) => {
        await new Administration(ownerUrl).disableUser(tenant, subject, force);
        console.log(`Disabled ${subject}. Running services refuse it within five seconds.`);
      }),
    );
  user
    .command('enable')
    .description('Accept a disabled user’s keys and tokens again')
    .argument('<subject>')
    .requiredOption('--tenant <tenant>', 'slug or id')
    .action((subject: string, { tenant }: { tenant: string }) =>
      withOwnerUrl(async (ownerUrl) => {
        await new Administration(ownerUrl).enableUser(tenant, subject);
        console.log(`Enabled ${subject}.`);
      }),
    );
}
