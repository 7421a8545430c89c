/**
 * Whether a number's text says no more than the double that it is read as: 1, 1.0, 12.50e1 and 0.1 do, 1.0000000000000000001 and
 * 123456.789012345678901 don't. Up to 15 significant digits always do.
 *
 * @param value `Number(literal)`, finite. Its own text is the shortest decimal that is read as this double.
 */
export function isKept(literal: string, value: number): boolean {
  return /[.eE]/.test(literal) || !Number.isSafeInteger(value) ? decimalOf(literal) === decimalOf(String(value)) : true;
}

/** One text for each decimal number, without its sign: significant digits, and the power of ten of the last one. */
function decimalOf(literal: string): string {
  const [mantissa = '', exponent = '0'] = literal.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.');
  const digits = whole + fraction;
  const significant = trimZeros(digits);
  if (significant === '') return '0';
  return `${significant.slice(zerosBefore(significant))}e${Number(exponent) - fraction.length + digits.length - significant.length}`;
}

/** Without a regular expression, whose search for zeros at the end is quadratic in zeros elsewhere. */
function trimZeros(digits: string): string {
  let end = digits.length;
  while (digits[end - 1] === '0') end -= 1;
  return digits.slice(0, end);
}

function zerosBefore(digits: string): number {
  let start = 0;
  while (digits[start] === '0') start += 1;
  return start;
}
