import { describe, expect, it } from '@jest/globals';
import { describeAddress, parseAddress } from './database-address.js';

const CA = import.meta.filename;
const hostsOf = (text: string): string[] => parseAddress(text).hosts.map(({ host, port }) => `${host} ${port}`);

describe('an address', () => {
  it('names role, password, server and database, with escapes', () => {
    expect(parseAddress('postgres://waybill_app:p%40ss%3Aw%2Frd@db.example.test:6432/my%20shop')).toMatchObject({
      user: 'waybill_app',
      password: 'p@ss:w/rd',
      hosts: [{ host: 'db.example.test', port: 6432 }],
      database: 'my shop',
      tls: undefined,
      mustTakeWrites: false,
      isPooled: false,
    });
  });

  it.each([
    ['postgres://u:p@db/w', ['db 5432']],
    ['postgresql://u:p@[2001:db8::7]:6000/w', ['2001:db8::7 6000']],
    ['postgres://u:p@/w?host=/var/run/postgresql', ['/var/run/postgresql 5432']],
    ['postgres:///w?host=/var/run/postgresql&port=5433&user=u', ['/var/run/postgresql 5433']],
    ['postgres://u:p@%2Fvar%2Frun%2Fpostgresql/w', ['/var/run/postgresql 5432']],
    ['postgres://u:p@one:5433,two,[::1]:5434/w', ['one 5433', 'two 5432', '::1 5434']],
    ['postgres://u:p@/w?host=one,two&port=5433,5434', ['one 5433', 'two 5434']],
    ['postgres://u:p@/w?host=one,two&port=5433', ['one 5433', 'two 5433']],
  ])('%s is of these servers', (text, hosts) => {
    expect(hostsOf(text)).toEqual(hosts);
  });

  it('with several servers means the one that takes writes, unless it says any', () => {
    const target = (query: string): boolean => parseAddress(`postgres://u:p@one,two/w${query}`).mustTakeWrites;
    expect(target('')).toBe(true);
    expect(target('?target_session_attrs=read-write')).toBe(true);
    expect(target('?target_session_attrs=primary')).toBe(true);
    expect(target('?target_session_attrs=any')).toBe(false);
    expect(parseAddress('postgres://u:p@one/w?target_session_attrs=read-write').mustTakeWrites).toBe(true);
  });

  it('is told without role and password', () => {
    expect(describeAddress('postgres://u:secret@one:5433,[::1]/w?sslmode=require')).toBe('one:5433,[::1]:5432/w');
  });

  it('looks at the server’s certificate unless it says that it does not', () => {
    const tls = (query: string) => parseAddress(`postgres://u:p@db/w?${query}`).tls;
    expect(tls('sslmode=disable')).toBe(false);
    expect(tls('sslmode=require')).toEqual({});
    expect(tls('sslmode=verify-full&sslrootcert=system')).toEqual({});
    expect(tls(`sslmode=verify-full&sslrootcert=${CA}`)).toEqual({ ca: expect.stringContaining('an address') });
    for (const mode of ['require', 'verify-ca']) {
      const found = tls(`sslmode=${mode}&sslrootcert=${CA}`);
      expect(found).toEqual({ ca: expect.any(String), checkServerIdentity: expect.any(Function) });
    }
    expect(tls('sslmode=no-verify')).toEqual({ rejectUnauthorized: false });
    expect(parseAddress('postgres://u:p@/w?host=/run&sslmode=require').tls).toBe(false);
  });

  it.each([
    ['mysql://u:p@db/w', 'must be an address like'],
    ['postgres://u:se#cret@db/w', 'write %40 for @'],
    ['postgres://u:se%cret@db/w', '%25'],
    ['postgres://u:secret@/w', 'must name its host'],
    ['postgres://u:secret@one,,two/w', 'must name its host'],
    ['postgres://db/w', 'must name the role'],
    ['postgres://u:secret@db', 'must name the database'],
    ['postgres://u:secret@db:99999/w', 'from 1 to 65535'],
    ['postgres://u:secret@2001:db8::7/w', 'brackets'],
    ['postgres://u:secret@/w?host=a,b,c&port=1,2', '3 hosts and 2 ports'],
    ['postgres://u:secret@a,b/w?target_session_attrs=standby', 'read-write, primary, any'],
    ['postgres://u:secret@db/w?sslmode=prefer', 'write one of these'],
    ['postgres://u:secret@db/w?sslmode=verify-ca', 'sslrootcert'],
    ['postgres://u:secret@db/w?sslmode=verify-full&sslrootcert=/nowhere/ca.pem', "can't be read (ENOENT)"],
    [`postgres://u:secret@db/w?sslrootcert=${CA}`, 'write sslmode=verify-full'],
    ['postgres://u:secret@db/w?sslmode=require&sslcert=x', 'both sslcert and sslkey'],
    ['postgres://u:secret@db/w?connect_timeout=10', 'Set DATABASE_CONNECT_TIMEOUT'],
    ['postgres://u:secret@db/w?schema=public', 'leave it out'],
    ['postgres://u:secret@db/w?whatever=1', 'known are host, port'],
    ['postgres://u:secret@db/w?sslmode=require&sslmode=disable', 'twice'],
  ])('%s is refused, says what to write, and never repeats a password', (text, told) => {
    expect(() => parseAddress(text)).toThrow(told);
    expect(() => parseAddress(text)).toThrow(expect.objectContaining({ name: 'AddressError' }));
    expect(() => parseAddress(text)).not.toThrow(/se#?%?cret/);
  });
});
