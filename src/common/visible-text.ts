/*
 * What a text has to show. The functions waybill.is_blank and waybill.is_reference say the same for SQL, and a test compares them
 * over all of Unicode. The characters are listed and not taken from Unicode's properties, which change with the version of Node.
 */

/** White space but U+0020, control characters, and what else leaves no mark (Default_Ignorable_Code_Point, U+2800, U+FFF9 to U+FFFB). */
const INVISIBLE =
  '\\u007F-\\u00A0\\u00AD\\u034F\\u061C\\u115F\\u1160\\u1680\\u17B4\\u17B5\\u180B-\\u180F\\u2000-\\u200F\\u2028-\\u202F\\u205F-\\u206F' +
  '\\u2800\\u3000\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0\\uFFF0-\\uFFFB' +
  '\\u{1BCA0}-\\u{1BCA3}\\u{1D173}-\\u{1D17A}\\u{E0000}-\\u{E0FFF}';

const VISIBLE = new RegExp(`[^\\u0000-\\u0020${INVISIBLE}]`, 'u');
const UNFIT = new RegExp(`^ | $|[\\u0000-\\u001F${INVISIBLE}]`, 'u');

/** Whether a text shows nothing: no character, or only such as leave no mark. */
export function isBlank(text: string): boolean {
  return !VISIBLE.test(text);
}

/**
 * Whether a text can name something of another system's. No two that read the same are different: they are in normalization form C,
 * with no white space but spaces inside, and without characters that leave no mark. And each can be a segment of an address, which
 * `.` and `..` can't.
 */
export function isReference(text: string): boolean {
  return text !== '' && text !== '.' && text !== '..' && !UNFIT.test(text) && text === text.normalize('NFC');
}
