/** Whether a number's text is an integer as written: 1, 1.0, 1e3 and 12.50e1, but not 1.0000000000000000001. */
export function isIntegerLiteral(literal: string): boolean {
  if (!/[.eE]/.test(literal)) return true;
  const [mantissa = '', exponent = '0'] = literal.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.');
  const digits = whole + fraction;
  const zerosAtEnd = digits.length - trimZeros(digits).length;
  return zerosAtEnd === digits.length || fraction.length - zerosAtEnd - Number(exponent) <= 0;
}

/** Without a regular expression, whose search for zeros at the end is quadratic in zeros elsewhere. */
function trimZeros(digits: string): string {
  let end = digits.length;
  while (digits[end - 1] === '0') end -= 1;
  return digits.slice(0, end);
}
