/**
 * Instants as text with exactly six decimals in UTC: '2026-11-30T00:15:06.123400Z'. A Date holds milliseconds only, so
 * nothing here makes one out of an instant that has to stay exact; texts of this form also sort like the instants do.
 */
const CANONICAL = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;
const POSTGRES = /^(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?\+00(?::?00)?$/;
const RFC3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))$/;

/**
 * PostgreSQL's text of a timestamptz, read in a session with TimeZone UTC ('2026-11-30 00:15:06.1234+00'), as RFC 3339
 * with exactly six decimals and Z. Also takes the form that its JSON functions write.
 * @throws RangeError for another time zone, infinity, or a year outside 0001 to 9999: a session or a CHECK is wrong then
 */
export function timestampFromPostgres(text: string): string {
  const match = POSTGRES.exec(text);
  if (!match || match[1] === '0000') throw new RangeError(`Not a timestamp under TimeZone UTC: ${text}`);
  const [, year, month, day, hour, minute, second, fraction = ''] = match;
  return `${year}-${month}-${day}T${hour}:${minute}:${second}.${fraction.padEnd(6, '0')}Z`;
}

/**
 * A client's RFC 3339 timestamp with any offset, in UTC with exactly six decimals, which PostgreSQL takes as it is.
 *
 * @param text at most nine decimals: Java and Go write nine, .NET seven
 * @param otherwise which microsecond stands for an instant between two. What is stored has microseconds, so comparisons stay
 *   exact: `stored >= t` and `stored < t` ask by the `later` one, `stored <= t` by the `earlier` one
 * @returns undefined for everything else: no offset, a day that isn't in the calendar, the leap second :60, the hour 24, a year
 *   outside 0001 to 9999 after conversion
 */
export function parseTimestamp(text: string, otherwise: 'earlier' | 'later' = 'earlier'): string | undefined {
  const match = RFC3339.exec(text);
  if (!match) return undefined;
  const [, year, month, day, hour, minute, second, fraction = '', sign, offsetHour = '0', offsetMinute = '0'] = match;
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return undefined;
  if (Number(offsetHour) > 23 || Number(offsetMinute) > 59) return undefined;
  if (!isCalendarDay(Number(year), Number(month), Number(day))) return undefined;

  const offset = (sign === '-' ? -1 : 1) * (Number(offsetHour) * 60 + Number(offsetMinute));
  // Whole seconds only pass through Date. setUTCFullYear, as Date.UTC reads 26 as 1926.
  const minutes = new Date(0);
  minutes.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  minutes.setUTCHours(Number(hour), Number(minute) - offset, Number(second));
  const isBetween = /[1-9]/.test(fraction.slice(6));
  const microseconds = Number(fraction.slice(0, 6).padEnd(6, '0')) + (isBetween && otherwise === 'later' ? 1 : 0);
  if (microseconds === 1_000_000) minutes.setUTCSeconds(minutes.getUTCSeconds() + 1);
  const utcYear = minutes.getUTCFullYear();
  if (utcYear < 1 || utcYear > 9999) return undefined;
  return `${minutes.toISOString().slice(0, 19)}.${String(microseconds % 1_000_000).padStart(6, '0')}Z`;
}

/** Whether a text already has the form that this file writes. */
export function isCanonicalTimestamp(text: string): boolean {
  return CANONICAL.test(text) && parseTimestamp(text) === text;
}

function isCalendarDay(year: number, month: number, day: number): boolean {
  if (year < 1 || month < 1 || month > 12 || day < 1) return false;
  const isLeap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  const days = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
  return day <= (days[month - 1] ?? 0);
}
