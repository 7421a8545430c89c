import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

import { describe, expect, it } from '@jest/globals';
import { transformSync } from '@swc/core';
import fc from 'fast-check';

import { isCanonicalTimestamp, parseTimestamp, timestampFromPostgres } from './timestamp.js';

describe('timestampFromPostgres', () => {
  it.each([
    ['2026-11-30 00:15:06.1234+00', '2026-11-30T00:15:06.123400Z'],
    ['2026-11-30 00:15:06+00', '2026-11-30T00:15:06.000000Z'],
    ['2026-11-30 00:15:06.000001+00', '2026-11-30T00:15:06.000001Z'],
    ['2026-11-30T00:15:06.1+00:00', '2026-11-30T00:15:06.100000Z'],
    ['0001-01-01 00:00:00+00', '0001-01-01T00:00:00.000000Z'],
  ])('turns %s into %s', (text, timestamp) => {
    expect(timestampFromPostgres(text)).toBe(timestamp);
  });

  it.each([
    '2026-11-30 00:15:06-06',
    '2026-11-30 00:15:06',
    'infinity',
    '0044-03-15 00:00:00+00 BC',
    '10000-01-01 00:00:00+00',
    '',
    '0000-01-01 00:00:00+00',
  ])('refuses %j, which no session under UTC should show', (text) => {
    expect(() => timestampFromPostgres(text)).toThrow(RangeError);
  });
});

describe('parseTimestamp', () => {
  it.each([
    ['2026-11-30T00:15:06Z', '2026-11-30T00:15:06.000000Z'],
    ['2026-11-30t00:15:06.123456z', '2026-11-30T00:15:06.123456Z'],
    ['2026-11-29T18:15:06.5-06:00', '2026-11-30T00:15:06.500000Z'],
    ['2026-01-01T00:00:00+00:01', '2025-12-31T23:59:00.000000Z'],
    ['2024-02-29T23:59:59.999999-23:59', '2024-03-01T23:58:59.999999Z'],
    ['0026-01-01T00:00:00Z', '0026-01-01T00:00:00.000000Z'],
    ['9999-12-31T23:59:59.999999Z', '9999-12-31T23:59:59.999999Z'],
    ['2026-11-30T00:15:06-00:00', '2026-11-30T00:15:06.000000Z'],
  ])('turns %s into %s', (text, timestamp) => {
    expect(parseTimestamp(text)).toBe(timestamp);
  });

  it.each([
    '2026-02-30T00:00:00Z',
    '2026-02-29T00:00:00Z',
    '1900-02-29T00:00:00Z',
    '2026-04-31T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-00-01T00:00:00Z',
    '2026-01-00T00:00:00Z',
    '2016-12-31T23:59:60Z',
    '2026-01-01T24:00:00Z',
    '2026-01-01T00:60:00Z',
    '2026-01-01T00:00:00.1234567890Z',
    '2026-01-01T00:00:00.Z',
    '2026-01-01T00:00:00',
    '2026-01-01 00:00:00Z',
    '2026-01-01',
    '2026-01-01T00:00:00 00:00',
    '2026-01-01T00:00:00+24:00',
    '2026-01-01T00:00:00+00:60',
    '2026-01-01T00:00:00+0000',
    '0000-01-01T00:00:00Z',
    '0001-01-01T00:00:00+00:01',
    '9999-12-31T23:59:59-00:01',
    '10000-01-01T00:00:00Z',
    '-001-01-01T00:00:00Z',
    '',
    'now',
    'infinity',
    '2026-01-01T00:00:00Z\n',
    ' 2026-01-01T00:00:00Z',
    '٢٠٢٦-01-01T00:00:00Z',
    '1767225600',
  ])('refuses %j', (text) => {
    expect(parseTimestamp(text)).toBeUndefined();
  });
});

describe('an instant between two microseconds', () => {
  it.each([
    ['2026-01-01T00:00:00.1234567Z', '2026-01-01T00:00:00.123456Z', '2026-01-01T00:00:00.123457Z'],
    ['2026-01-01T00:00:00.123456001Z', '2026-01-01T00:00:00.123456Z', '2026-01-01T00:00:00.123457Z'],
    ['2026-01-01T00:00:00.123456000Z', '2026-01-01T00:00:00.123456Z', '2026-01-01T00:00:00.123456Z'],
    ['2025-12-31T23:59:59.9999999Z', '2025-12-31T23:59:59.999999Z', '2026-01-01T00:00:00.000000Z'],
    ['9999-12-31T23:59:59.999999999Z', '9999-12-31T23:59:59.999999Z', undefined],
  ])('%s is the earlier or the later of them, as a comparison needs it', (text, earlier, later) => {
    expect([parseTimestamp(text), parseTimestamp(text, 'earlier'), parseTimestamp(text, 'later')]).toEqual([
      earlier,
      earlier,
      later,
    ]);
  });
});

describe('instants', () => {
  const anyInstant = fc.date({
    min: new Date('0001-01-02T00:00:00Z'),
    max: new Date('9999-12-30T00:00:00Z'),
    noInvalidDate: true,
  });

  it('are what Date says, to the microsecond, whatever the offset', () => {
    fc.assert(
      fc.property(
        anyInstant,
        fc.integer({ min: 0, max: 999 }),
        fc.integer({ min: -1439, max: 1439 }),
        (date, micros, offset) => {
          const local = new Date(date.getTime() + offset * 60_000).toISOString().slice(0, 23);
          const digits = String(micros).padStart(3, '0');
          const [hours, minutes] = [Math.trunc(Math.abs(offset) / 60), Math.abs(offset) % 60];
          const zoneText = `${offset < 0 ? '-' : '+'}${String(hours).padStart(2, '0')}:${String(minutes).padStart(2, '0')}`;
          const expected = `${date.toISOString().slice(0, 23)}${digits}Z`;
          expect(parseTimestamp(`${local}${digits}${zoneText}`)).toBe(expected);
          expect(isCanonicalTimestamp(expected)).toBe(true);
          expect(timestampFromPostgres(expected.replace('T', ' ').replace('Z', '+00'))).toBe(expected);
        },
      ),
    );
  });

  it('sort as texts like they do in time', () => {
    fc.assert(
      fc.property(anyInstant, anyInstant, (a, b) => {
        const [x, y] = [parseTimestamp(a.toISOString()) as string, parseTimestamp(b.toISOString()) as string];
        expect(Math.sign(a.getTime() - b.getTime())).toBe(x < y ? -1 : x > y ? 1 : 0);
      }),
    );
  });

  it.each(['America/Mexico_City', 'Europe/Berlin', 'Asia/Kathmandu'])(
    'are the same in a process under TZ=%s',
    (zone) => {
      // Jest keeps the time zone it started with, so this takes a process; the hours around changes of daylight saving.
      const texts = [
        '2026-03-29T01:59:59.999999Z',
        '2026-03-29T02:30:00Z',
        '2026-10-25T02:30:00+01:00',
        '2022-10-30T01:30:00-06:00',
      ];
      const { code } = transformSync(readFileSync(`${import.meta.dirname}/timestamp.ts`, 'utf8'), {
        jsc: { parser: { syntax: 'typescript' }, target: 'es2022' },
        module: { type: 'es6' },
      });
      const script = `${code}; console.log(JSON.stringify([new Date(0).getTimezoneOffset(), ...${JSON.stringify(texts)}.map(parseTimestamp)]))`;
      const output = execFileSync(process.execPath, ['--input-type=module', '-e', script], { env: { TZ: zone } });
      const [offset, ...parsed] = JSON.parse(String(output)) as unknown[];
      expect(offset).not.toBe(0);
      expect(parsed).toEqual(texts.map((text) => parseTimestamp(text)));
    },
  );
});
