import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Command } from 'commander';
import { addKeyCommand } from '../../../src/cli/key-command.js';
import { addTenantCommand } from '../../../src/cli/tenant-command.js';
import { addUserCommand } from '../../../src/cli/user-command.js';
import { ApiClient } from '../../support/api-client.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { orderBody } from '../../support/builders.js';

describe('the command line for tenants, users and keys', () => {
  let service: TestApp;
  const before = { ...process.env };
  beforeAll(async () => {
    service = await startTestApp();
    process.env.DATABASE_URL = service.database.appUrl;
    process.env.MIGRATION_DATABASE_URL = service.database.ownerUrl;
  });
  afterAll(async () => {
    process.env = before;
    await service.close();
  });

  /** Runs one command in this process; what it prints and throws is the result. */
  const run = async (...commandLine: string[]) => {
    const printed = { stdout: '', stderr: '' };
    const log = jest.spyOn(console, 'log').mockImplementation((line) => void (printed.stdout += `${line}\n`));
    const error = jest.spyOn(console, 'error').mockImplementation((line) => void (printed.stderr += `${line}\n`));
    const program = new Command('waybill');
    const configure = (command: Command): void => {
      command.exitOverride().configureOutput({
        writeOut: (text) => void (printed.stdout += text),
        writeErr: (text) => void (printed.stderr += text),
      });
      command.commands.forEach(configure);
    };
    [addTenantCommand, addUserCommand, addKeyCommand].forEach((add) => add(program));
    configure(program);
    let failure: string | null = null;
    try {
      await program.parseAsync(commandLine, { from: 'user' });
    } catch (thrown) {
      const isHelp = (thrown as { exitCode?: number }).exitCode === 0;
      failure = isHelp ? null : (thrown as Error).message;
    }
    log.mockRestore();
    error.mockRestore();
    return { ...printed, failure };
  };
  const ok = async (...commandLine: string[]) => {
    const result = await run(...commandLine);
    expect(result.failure).toBeNull();
    return result;
  };
  const refused = async (...commandLine: string[]) => {
    const { failure, stdout } = await run(...commandLine);
    expect(stdout).toBe('');
    return failure;
  };

  it('makes a tenant, its first administrator and a key that works, and takes the key back', async () => {
    const made = await ok('tenant', 'create', 'acme', '--name', 'Acme Inc.');
    expect(made.stdout).toMatch(/^Made tenant acme with the id 3\./);
    expect(made.stdout).toContain('waybill user create admin --tenant acme');
    await ok('user', 'create', 'boss', '--tenant', 'acme', '--name', 'Boss', '--role', 'admin', 'operator');
    const key = await ok('key', 'create', '--tenant', 'acme', '--user', 'boss', '--name', 'first', '--expires', '90d');
    expect(key.stdout).toMatch(/^wb_3_[0-9a-f]{12}_[\w-]{43}\n$/);
    expect(key.stderr).toContain('cannot be shown again');

    const client = new ApiClient(service.baseUrl, key.stdout.trim());
    expect((await client.post('/v1/orders', orderBody())).status).toBe(201);
    expect((await client.get('/v1/users')).status).toBe(200);

    const prefix = key.stdout.split('_').slice(0, 3).join('_');
    const list = await ok('key', 'list', '--tenant', '3');
    expect(list.stdout).toMatch(new RegExp(`^PREFIX +STATE .*\\n${prefix} +active +20`));
    expect(list.stdout).not.toContain(key.stdout.trim());
    expect((await ok('key', 'revoke', prefix, '--tenant', 'acme')).stdout).toContain(`Revoked ${prefix}.`);
    expect((await ok('key', 'list', '--tenant', 'acme', '--user', 'boss')).stdout).toContain('revoked');
    // Another process learns of it when what it knows is five seconds old.
    await new Promise((resolve) => setTimeout(resolve, 5_200));
    expect((await client.get('/v1/users')).status).toBe(401);
  });

  it('disables users, but the last administrator only when it is told to', async () => {
    await ok('tenant', 'create', 'two', '--name', 'Two');
    await ok('user', 'create', 'a', '--tenant', 'two', '--name', 'A', '--role', 'admin');
    expect(await refused('user', 'disable', 'a', '--tenant', 'two')).toContain('last user with the role admin');
    await ok('user', 'create', 'b', '--tenant', 'two', '--name', 'B', '--kind', 'human', '--role', 'admin');
    await ok('user', 'disable', 'a', '--tenant', 'two');
    const list = await ok('user', 'list', '--tenant', 'two');
    expect(list.stdout).toMatch(
      /^SUBJECT +KIND +ROLES +STATE +NAME\nb +human +admin +active +B\na +service +admin +disabled/,
    );
    expect(await refused('key', 'create', '--tenant', 'two', '--user', 'a', '--name', 'x')).toContain('is disabled');
    await ok('user', 'enable', 'a', '--tenant', 'two');
    await ok('user', 'disable', 'b', '--tenant', 'two');
    await ok('user', 'disable', 'a', '--tenant', 'two', '--force');
  });

  it('says what is wrong and what to do', async () => {
    expect(await refused('tenant', 'create', 'demo', '--name', 'X')).toBe('There is a tenant demo already.');
    expect(await refused('tenant', 'create', '42', '--name', 'X')).toContain('42 is no slug');
    expect(await refused('user', 'list', '--tenant', 'nobody')).toContain('waybill tenant create nobody');
    expect(await refused('user', 'create', 'x', '--tenant', 'demo', '--name', 'X', '--role', 'system')).toContain(
      'the service’s own',
    );
    expect(await refused('key', 'create', '--tenant', 'demo', '--user', 'nobody', '--name', 'x')).toContain(
      'waybill user list',
    );
    expect(await refused('key', 'revoke', 'wb_1_000000000000', '--tenant', 'demo')).toContain('waybill key list');
    expect(
      await refused('key', 'create', '--tenant', 'demo', '--user', 'x', '--name', 'x', '--expires', 'soon'),
    ).toContain('90d');
    const odd = await ok('user', 'create', 'odd', '--tenant', 'demo', '--name', 'Odd', '--role', 'wharehouse');
    expect(odd.stdout).toContain('No workflow names wharehouse yet');
  });

  it.each(['tenant', 'user', 'key', 'key create', 'user create', 'tenant create'])('explains %s', async (command) => {
    const { stdout } = await ok(...command.split(' '), '--help');
    expect(stdout).toMatch(new RegExp(`^Usage: waybill ${command} `));
  });
});
