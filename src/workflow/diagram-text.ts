/**
 * State names are data: an extension may call a state anything, in any script. Here they become literals of DOT, Mermaid
 * and XML, which differ in what they take for syntax.
 */

/** Text content or an attribute value of XML. */
export function textToXml(text: string): string {
  return visible(text)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;');
}

/** A DOT id; only a double quote or a backslash before the closing one could end it early. */
export function quoteDot(text: string): string {
  return `"${visible(text).replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')}"`;
}

/**
 * A DOT label. Unlike in an id, Graphviz decodes XML entities and backslash sequences in it. It crashes on a label that
 * begins with an empty line, so empty lines hold a no-break space.
 */
export function textToDotLabel(text: string): string {
  const lines = visible(text).replaceAll('&', '&amp;').split('\n');
  return quoteDot(lines.map((line) => line || '\u00a0').join('\n'));
}

/** Text inside an HTML-like DOT label. */
export function textToDotMarkup(text: string): string {
  return textToXml(text).replaceAll('\n', '<br/>');
}

/** Text of a Mermaid label: all that isn't a letter, a digit or harmless becomes an entity in Mermaid's own spelling. */
export function textToMermaid(text: string): string {
  return visible(text).replace(/[^\p{L}\p{M}\p{N} ,.()+/–→-]/gu, (character) =>
    character === '\n' ? '<br/>' : `#${character.codePointAt(0)};`,
  );
}

/** About how wide a text is in a sans-serif font, its longest line, in em; generous, so that boxes don't overflow. */
export function textWidthInEm(text: string): number {
  const lines = visible(text).split('\n');
  return Math.max(...lines.map((line) => Array.from(line).reduce((sum, character) => sum + widthOf(character), 0)));
}

function widthOf(character: string): number {
  if (/\p{M}/u.test(character)) return 0;
  if (/[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\p{Extended_Pictographic}]/u.test(character)) return 1.1;
  if (/[ijlt.,:;'|!()[\] ]/.test(character)) return 0.34;
  return /[mwMW@%\p{Lu}]/u.test(character) ? 0.85 : 0.62;
}

/** What XML doesn't allow says nothing in a picture either: control characters become the symbols that name them. */
function visible(text: string): string {
  return text.replace(/\r\n?/g, '\n').replace(/[\p{Cc}\p{Cs}\ufffe\uffff]/gu, (character) => {
    const code = character.charCodeAt(0);
    if (character === '\n') return character;
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : '\ufffd';
  });
}
