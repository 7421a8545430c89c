import { type Command, InvalidArgumentError } from 'commander';
import { parseTimestamp } from '../common/index.js';
import { Administration } from '../identity/administration.js';
import { withOwnerUrl } from './database-address.js';
import { table } from './table.js';

interface CreateOptions {
  tenant: string;
  user: string;
  name: string;
  expires?: string | null;
}

export function addKeyCommand(program: Command): void {
  const key = program.command('key').description('API keys of a tenant');
  key
    .command('create')
    .description('Make a key and print it, this once, alone on standard output')
    .requiredOption('--tenant <tenant>', 'slug or id')
    .requiredOption('--user <subject>', 'the user whose roles it has')
    .requiredOption('--name <name>', 'what it is for')
    .option('--expires <when>', 'days such as 90d, or a time such as 2027-01-31T00:00:00Z', readExpiry)
    .action(({ tenant, user, name, expires = null }: CreateOptions) =>
      withOwnerUrl(async (ownerUrl) => {
        const made = await new Administration(ownerUrl).createKey(tenant, user, name, expires);
        console.error(`Key ${made.prefix} of ${user}, ${expires ? `good until ${expires}` : 'good until revoked'}.`);
        console.error('It is stored nowhere and cannot be shown again:');
        console.log(made.key);
      }),
    );
  key
    .command('list')
    .description('List the keys of a tenant, newest first; never their secrets')
    .requiredOption('--tenant <tenant>', 'slug or id')
    .option('--user <subject>', 'only those of this user')
    .action(({ tenant, user }: { tenant: string; user?: string }) =>
      withOwnerUrl(async (ownerUrl) => {
        const keys = await new Administration(ownerUrl).listKeys(tenant, user ?? null);
        const rows = keys.map(({ prefix, name, createdAt, expiresAt, revokedAt, lastUsedAt }) => [
          prefix,
          stateOf(expiresAt, revokedAt),
          createdAt,
          lastUsedAt ?? 'never',
          expiresAt ?? 'never',
          name,
        ]);
        console.log(table(['PREFIX', 'STATE', 'CREATED', 'LAST USED', 'EXPIRES', 'NAME'], rows));
      }),
    );
  key
    .command('revoke')
    .description('Refuse a key for good, within five seconds')
    .argument('<key>', 'its prefix, its id, or its whole text')
    .requiredOption('--tenant <tenant>', 'slug or id')
    .action((which: string, { tenant }: { tenant: string }) =>
      withOwnerUrl(async (ownerUrl) => {
        const { prefix } = await new Administration(ownerUrl).revokeKey(tenant, which);
        console.log(`Revoked ${prefix}. Running services refuse it within five seconds.`);
      }),
    );
}

function stateOf(expiresAt: string | null, revokedAt: string | null): string {
  if (revokedAt !== null) return 'revoked';
  return expiresAt !== null && Date.parse(expiresAt) <= Date.now() ? 'expired' : 'active';
}

const DAY_MS = 86_400_000;

function readExpiry(text: string): string {
  const [, days] = /^([1-9]\d{0,3})d$/.exec(text) ?? [];
  const at = days ? new Date(Date.now() + Number(days) * DAY_MS).toISOString() : parseTimestamp(text, 'later');
  if (at && Date.parse(at) > Date.now()) return at;
  throw new InvalidArgumentError('Say a number of days such as 90d, or a future time such as 2027-01-31T00:00:00Z.');
}
