const RULES: readonly (readonly [RegExp, string])[] = [
  [/\b(wb_\d+_[0-9a-f]{12})_[\w-]+/g, '$1_[redacted]'],
  [/\beyJ[\w-]*\.[\w-]*\.[\w-]*/g, '[redacted token]'],
  [/\b(Bearer|Basic)\s+[^\s"',]+/gi, '$1 [redacted]'],
  // A password in an address: postgres://role:password@host
  [/(\b[a-z][a-z0-9+.-]*:\/\/[^\s:@/]*):[^\s@/]*@/gi, '$1:[redacted]@'],
  [
    /("?(?:authorization|cookie|set-cookie|password|passwd|secret|api[-_]?key|token)"?\s*[:=]\s*"?)(?!\[redacted)[^\s",;&]+/gi,
    '$1[redacted]',
  ],
  [/\b(?:[rs]k_(?:live|test)|whsec)_\w+/g, '[redacted key]'],
  [/[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g, '[redacted e-mail]'],
];

/**
 * A text for the log without credentials, passwords and e-mail addresses. The last line of defence: nothing should
 * hand such things to the log in the first place.
 */
export function redact(text: string): string {
  return RULES.reduce((current, [pattern, replacement]) => current.replace(pattern, replacement), text);
}
