import { describe, expect, it } from '@jest/globals';
import { readClaims } from './token-claims.js';

describe('readClaims', () => {
  const names = { tenant: 'tenant', roles: 'roles' };
  const payload = { sub: 'ada', exp: 1_800_000_000, tenant: 'demo', roles: ['operator'] };

  it('reads subject, tenant, roles and end', () => {
    expect(readClaims(payload, names)).toEqual({
      subject: 'ada',
      displayName: 'ada',
      tenant: 'demo',
      roles: ['operator'],
      expiresAt: 1_800_000_000_000,
    });
    expect(readClaims({ ...payload, name: 'Ada Example' }, names)?.displayName).toBe('Ada Example');
  });

  it.each([
    ['a list', ['viewer', 'admin'], ['viewer', 'admin']],
    ['names with spaces between', 'viewer admin', ['viewer', 'admin']],
    ['a role twice', ['viewer', 'viewer'], ['viewer']],
    ['the service’s own role', ['system', 'viewer'], ['viewer']],
    ['a comma in a role', ['viewer,admin', 'viewer,system'], []],
    ['other kinds of groups', ['CN=Admins', 'Admin', '', 7, null, { admin: true }], []],
    ['an object', { admin: true }, []],
    ['nothing', undefined, []],
  ])('takes roles from %s', (_what, roles, expected) => {
    expect(readClaims({ ...payload, roles }, names)?.roles).toEqual(expected);
  });

  it.each([
    ['a slug', 'demo', 'demo'],
    ['an id as text', '17', '17'],
    ['an id as number', 17, '17'],
    ['zero', 0, undefined],
    ['a fraction', 1.5, undefined],
    ['nothing', undefined, undefined],
    ['an empty text', '', undefined],
    ['a list', ['demo'], undefined],
    ['a path', '../demo', undefined],
    ['capitals', 'Demo', undefined],
  ])('takes the tenant from %s', (_what, tenant, expected) => {
    expect(readClaims({ ...payload, tenant }, names)?.tenant).toBe(expected);
  });

  it('finds claims by their whole name before it reads the name as a path', () => {
    const nested = { ...payload, realm_access: { roles: ['auditor'] }, 'https://waybill.example/tenant': 'other' };
    const found = readClaims(nested, { tenant: 'https://waybill.example/tenant', roles: 'realm_access.roles' });
    expect([found?.tenant, found?.roles]).toEqual(['other', ['auditor']]);
    expect(readClaims(payload, { tenant: 'constructor.name', roles: 'roles' })).toBeNull();
  });

  it.each([[undefined], [''], [' '], ['a\nb'], ['x'.repeat(256)], [7]])('has no use for the subject %j', (sub) => {
    expect(readClaims({ ...payload, sub }, names)).toBeNull();
  });
});
