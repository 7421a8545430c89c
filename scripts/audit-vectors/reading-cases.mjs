const malformed = (name, line, change) => ({ name, ...change, verdict: 'unreadable', code: 'MALFORMED', line });
const raw = (line) => ({ base64: (Buffer.isBuffer(line) ? line : Buffer.from(line)).toString('base64') });

/** How an export is written: in one way. */
export function readingCases({ lines }) {
  const event = 3;
  const withLine = (at, line) => ({ lines: lines.with(at - 1, line) });
  const edit = (from, to, at = event) => {
    const changed = lines[at - 1].replace(from, to);
    if (changed === lines[at - 1]) throw new Error(`line ${at} has no ${from}`);
    return withLine(at, changed);
  };
  const header = (from, to) => edit(from, to, 1);
  const parsed = JSON.parse(lines[event - 1]);
  const intact = { name: 'an export as it is written', verdict: 'intact', code: null };
  return [
    intact,
    malformed('an empty file', 1, { lines: [] }),
    malformed('a first line that is not JSON', 1, withLine(1, 'export')),
    malformed('a first line that is not an object', 1, withLine(1, '[]')),
    malformed('a first line that is an event', 1, { lines: lines.slice(1) }),
    {
      name: 'another export format',
      ...header('-export/v1', '-export/v2'),
      verdict: 'unreadable',
      code: 'UNKNOWN_FORMAT',
      line: 1,
    },
    malformed('a header with a member twice', 1, header('"tenantId":1,', '"tenantId":1,"tenantId":1,')),
    malformed('a header with an unknown member', 1, header('"tenantId":1,', '"tenantId":1,"more":1,')),
    malformed('a header without a member', 1, header('"tenantId":1,', '')),
    malformed('a header with members in another order', 1, header(/("origin":".*?"),("tenantId":1)/, '$2,$1')),
    malformed('a header with white space', 1, header('"tenantId":1', '"tenantId": 1')),
    malformed('a tenant as a text', 1, header('"tenantId":1', '"tenantId":"1"')),
    malformed('a tenant as 1.0', 1, header('"tenantId":1', '"tenantId":1.0')),
    malformed('tenant 0', 1, header('"tenantId":1', '"tenantId":0')),
    malformed('a size below 0', 1, header('"size":8', '"size":-8')),
    malformed('an origin with a space', 1, header('"origin":"audit.', '"origin":"audit .')),
    malformed('an origin with a plus', 1, header('"origin":"audit.', '"origin":"audit+.')),
    malformed('an empty origin', 1, header(/"origin":"[^"]*"/, '"origin":""')),
    malformed('a byte order mark', 1, withLine(1, `\ufeff${lines[0]}`)),

    malformed('a last line without its end', lines.length, { end: '' }),
    malformed('a carriage return at the end of a line', event, withLine(event, `${lines[event - 1]}\r`)),
    malformed('an empty line between', event, { lines: lines.toSpliced(event - 1, 0, '') }),
    malformed('an empty line at the end', lines.length + 1, { lines: [...lines, ''] }),
    malformed('a line that is cut', event, withLine(event, lines[event - 1].slice(0, 100))),
    malformed('a line that is not an object', event, withLine(event, 'null')),
    malformed('an array', event, withLine(event, `[${lines[event - 1]}]`)),
    malformed('two objects in a line', event, withLine(event, lines[event - 1] + lines[event - 1])),
    malformed('arrays in arrays without end', event, withLine(event, '['.repeat(20_000))),
    malformed(
      'bytes that are not UTF-8',
      event,
      withLine(event, raw(Buffer.from(lines[event - 1].replace('Gr', 'Gr\u00ff'), 'latin1'))),
    ),
    malformed(
      'a character in more bytes than it takes',
      event,
      withLine(
        event,
        raw(Buffer.from(lines[event - 1].replace('order.created', 'order\u00c0\u00aecreated'), 'latin1')),
      ),
    ),
    malformed(
      'a surrogate in UTF-8',
      event,
      withLine(
        event,
        raw(Buffer.from(lines[event - 1].replace('order.created', 'order\u00ed\u00a0\u0080created'), 'latin1')),
      ),
    ),
    malformed('half of a pair of surrogates', event, edit('日', '\\ud83c')),

    malformed('a member twice', event, edit('"version":1,', '"version":1,"version":1,')),
    malformed(
      'a member twice, the second one with another value',
      event,
      edit('"type":"order.created"', '"type":"order.canceled","type":"order.created"'),
    ),
    malformed('an unknown member', event, edit(/\}$/, ',"more":1}')),
    malformed('a member that is called otherwise', event, edit('"eventId"', '"eventID"')),
    malformed('a member whose name is escaped', event, edit('"type"', '"\\u0074ype"')),
    malformed('a missing member', event, edit('"version":1,', '')),
    malformed('members in another order', event, edit(/("type":".*?"),("actor":".*?")/, '$2,$1')),
    malformed('white space', event, edit('"version":1', '"version":\t1')),
    malformed('white space behind', event, edit(/$/, ' ')),

    malformed('1.0', event, edit('"version":1', '"version":1.0')),
    malformed('1e0', event, edit('"version":1', '"version":1e0')),
    malformed('-0', event, edit('"version":1', '"version":-0')),
    malformed('01', event, edit('"version":1', '"version":01')),
    malformed('a number as a text', event, edit('"version":1', '"version":"1"')),
    malformed('true instead of 1', event, edit('"version":1', '"version":true')),
    malformed('version 0', event, edit('"version":1', '"version":0')),
    malformed('2^53', event, edit(/"occurredUs":\d+/, '"occurredUs":9007199254740992')),
    malformed('a number of 5,000 digits', event, edit(/"occurredUs":\d+/, `"occurredUs":${'9'.repeat(5000)}`)),
    malformed('a time before 1970', event, edit(/"occurredUs":\d+/, '"occurredUs":-1')),
    malformed('null instead of a text', event, edit('"type":"order.created"', '"type":null')),
    malformed('NaN', event, edit('"version":1', '"version":NaN')),
    {
      name: 'another event format',
      ...edit('"format":1', '"format":2'),
      verdict: 'unreadable',
      code: 'UNKNOWN_FORMAT',
      line: event,
    },

    malformed('a letter as an escape', event, edit('order.created', '\\u006frder.created')),
    malformed('a slash with a backslash', event, edit('"order/', '"order\\/')),
    malformed('an escape in upper case', event, edit('Grün', 'Gr\\u00FCn')),
    malformed('a pair of surrogates as escapes', event, edit('\u{1F375}', '\\ud83c\\udf75')),
    malformed('a control character that has a short escape as a number', event + 1, edit('\\t', '\\u0009', event + 1)),
    malformed('a raw control character', event, edit('日', '\u0001')),

    malformed('a hash in upper case', event, edit(parsed.prevHash, parsed.prevHash.toUpperCase())),
    malformed('a hash that is too short', event, edit(parsed.prevHash, parsed.prevHash.slice(2))),
    malformed('a hash that is too long', event, edit(parsed.eventHash, `${parsed.eventHash}00`)),
    malformed('something else than hex in a hash', event, edit(parsed.eventHash, `${parsed.eventHash.slice(0, 62)}zz`)),
    malformed('a UUID in upper case', event, edit(parsed.actor, parsed.actor.toUpperCase())),
    malformed('a UUID without hyphens', event, edit(parsed.eventId, parsed.eventId.replaceAll('-', ''))),
    malformed(
      'a UUID with hyphens elsewhere',
      event,
      edit(parsed.eventId, parsed.eventId.replace('00000000-1111', '0000000-01111')),
    ),
    malformed('a UUID in braces', event, edit(parsed.eventId, `{${parsed.eventId}}`)),
    malformed('base64 without padding', event, edit('=="', '"')),
    malformed('base64 with bits that stand for nothing', event, edit(parsed.signature, nextDigit(parsed.signature))),
    malformed('base64 for addresses', event, edit(parsed.signature, `_${parsed.signature.slice(1)}`)),
    malformed(
      'a line break in base64',
      event,
      edit(parsed.signature, `${parsed.signature.slice(0, 64)}\\n${parsed.signature.slice(64)}`),
    ),
    malformed(
      'a signature of 63 bytes',
      event,
      edit(parsed.signature, Buffer.from(parsed.signature, 'base64').subarray(1).toString('base64')),
    ),
    malformed('an empty signature', event, edit(parsed.signature, '')),
  ];
}

/** The last digit that counts one higher: the same bytes to whoever doesn't look at the rest of its bits. */
function nextDigit(signature) {
  const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  return `${signature.slice(0, 85)}${digits[digits.indexOf(signature[85]) + 1]}==`;
}
