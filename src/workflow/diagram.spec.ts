import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { toDot, toMermaid, toSvg } from './diagram.js';
import { buildMachines, type Machine, type TransitionRule } from './machine.js';

type Way = [from: string, to: string, more?: Partial<TransitionRule>];

const machineOf = (initialState: string, ways: Way[], name = 'order'): Machine => {
  const rules = ways.map(([from, to, more]) => ({
    machine: name,
    from,
    to,
    roles: ['operator', 'admin'],
    requiresReason: to === 'canceled',
    guards: [],
    ...more,
  }));
  const machine = buildMachines([{ machine: name, initialState }], rules).get(name);
  if (!machine) throw new Error('the machine was not built');
  return machine;
};

// In the order in which the database returns the rows, which is not that of the story.
const orderWays: Way[] = [
  ['confirmed', 'canceled'],
  ['confirmed', 'shipped'],
  ['pending', 'canceled'],
  ['pending', 'confirmed'],
  ['shipped', 'delivered'],
];
const order = machineOf('pending', orderWays);

const hostileNames = [
  'quote " quote',
  'backslash at the end \\',
  '\\" onload="alert(1)',
  '<script>alert(1)</script>',
  '&lt; & &#60; &nbsp;',
  'two\nlines\r\nor three',
  'semi;colon:hash#percent%%{brace}[*]-->',
  '\u0001\u007f\u0085\ufffe',
  'Zürich 已发货 🚚 שלום',
  '__proto__',
  '*bold* `code` ~x~',
  'end',
  'state',
  'start',
  's1',
  '',
  ' ',
];

describe('toDot', () => {
  it('draws the states by name, left to right, with the final ones double-bordered', () => {
    const dot = toDot(order);
    expect(dot).toContain('rankdir=LR');
    expect(dot).toMatch(/"delivered" \[.*peripheries=2/);
    expect(dot).toMatch(/"canceled" \[.*peripheries=2/);
    expect(dot).not.toMatch(/"shipped" \[.*peripheries=2/);
    expect(dot).toContain('"start" -> "pending"');
    expect(dot.match(/->/g)).toHaveLength(6);
  });

  it('marks where a reason is needed, and names roles only where they differ', () => {
    expect(toDot(order)).toMatch(/"pending" -> "canceled" \[label=<[^\n]*<i>with reason<\/i>/);
    expect(toDot(order)).not.toContain('operator');
    const differing = machineOf('pending', [
      ['pending', 'paid', { roles: ['clerk'], guards: ['credit'] }],
      ...orderWays,
    ]);
    expect(toDot(differing)).toMatch(/"pending" -> "paid" \[label=<[^\n]*clerk[^\n]*\[credit\]/);
    expect(toDot(differing)).toMatch(/"pending" -> "confirmed" \[label=<[^\n]*admin, operator/);
  });

  it('shows where an order is and how it came there, also in a state that a later version removed', () => {
    const dot = toDot(order, { visited: ['pending', 'confirmed'], current: 'on-hold' });
    expect(dot).toMatch(/"on-hold" \[.*removed here.*dashed/);
    expect(dot).toMatch(/"pending" -> "confirmed" \[.*class="way visited"/);
    expect(dot).not.toMatch(/"confirmed" -> "shipped" \[.*visited/);
  });

  it('gives the marker of the start an id that no state has', () => {
    expect(toDot(machineOf('start', [['start', '_start']]))).toContain('"__start" -> "start"');
  });
});

describe('toMermaid', () => {
  it('draws the order machine', () => {
    expect(toMermaid(order, { current: 'shipped' })).toBe(`stateDiagram-v2
  accTitle: order#58; states and transitions
  accDescr: ${toMermaid(order, { current: 'shipped' }).match(/accDescr: (.*)/)?.[1]}
  direction LR
  [*] --> pending
  confirmed --> canceled : with reason
  confirmed --> shipped
  pending --> canceled : with reason
  pending --> confirmed
  shipped --> delivered
  delivered --> [*]
  canceled --> [*]
  classDef initial fill:#e0edff,stroke:#5b8def,color:#173a78
  classDef between fill:#eeecfd,stroke:#8f86e0,color:#332b75
  classDef completed fill:#dcf5e7,stroke:#3fa673,color:#0f4a2e
  classDef ended fill:#fdebe7,stroke:#d98570,color:#6d2413
  classDef removed fill:#f1f5f9,stroke:#94a3b8,color:#334155
  classDef here stroke-width:3px,font-weight:bold
  class pending initial
  class confirmed between
  class shipped between
  class delivered completed
  class canceled ended
  class shipped here
`);
  });

  it('gives names that Mermaid would take for syntax an id and an escaped label', () => {
    const mermaid = toMermaid(machineOf('end', [['end', 'a "b" <c>;']]));
    expect(mermaid).toContain('  state "end" as s1\n  state "a #34;b#34; #60;c#62;#59;" as s2\n');
    expect(mermaid).toContain('  s1 --> s2\n');
  });

  it('never lets a name start a line or leave its label', () => {
    fc.assert(
      fc.property(anyNames(), (names) => {
        for (const line of toMermaid(chainOf(names)).trimEnd().split('\n').slice(3)) {
          expect(line).toMatch(
            /^ {2}(direction LR|state "[^"\n<>;]*(?:(?:<br\/>|#\d+;)[^"\n<>;]*)*" as s\d+|(\w+|\[\*\]) --> (\w+|\[\*\])|classDef [\w:#,-]+ [\w:#,-]+|class \w+ \w+)$/,
          );
        }
      }),
    );
  });
});

describe('toSvg', () => {
  it('is accessible and stands by itself', async () => {
    const svg = await toSvg(order, { current: 'shipped' });
    expect(wellFormed(svg)).toBe(true);
    expect(svg).toMatch(
      /^<svg xmlns="http:\/\/www.w3.org\/2000\/svg" class="waybill-machine" role="img" aria-label="order/,
    );
    expect(svg).toContain('<title>order: states and transitions</title>');
    expect(svg).toMatch(/<desc>Starts in pending\..*Ends in canceled or delivered\. Now in shipped\.<\/desc>/);
    expect(svg).toContain('prefers-color-scheme: dark');
    expect(svg).toContain('<title>confirmed → canceled (with reason)</title>');
    expect(svg).toContain('<title>shipped (now here)</title>');
    expect(svg).toContain('<title>delivered (final)</title>');
    expect(svg).not.toMatch(/<a |href|<script|<!--|<\?xml| id=/);
  });

  it('draws any state name, and keeps it text', async () => {
    const svg = await toSvg(chainOf(hostileNames));
    expect(wellFormed(svg)).toBe(true);
    expect(svg.match(/class="node state/g)).toHaveLength(hostileNames.length);
    expect(svg).toContain('>&lt;script&gt;alert(1)&lt;/script&gt;<');
    expect(svg).toMatch(/<text[^>]*>&amp;lt; &amp; &amp;#60; &amp;nbsp;<\/text>/);
    expect(svg).toMatch(/<text[^>]*>two<\/text>\s*<text[^>]*>lines<\/text>/);
    expect(svg).toMatch(/<text[^>]*>Zürich 已发货 🚚 שלום<\/text>/);
    expect(svg).toMatch(/<text[^>]*>backslash at the end \\<\/text>/);
  });

  it('is well-formed, with one box a state, for every machine', async () => {
    await fc.assert(
      fc.asyncProperty(anyNames(), async (names) => {
        const svg = await toSvg(chainOf(names));
        expect(wellFormed(svg)).toBe(true);
        expect(svg.match(/class="node state/g)).toHaveLength(names.length);
      }),
      { numRuns: 40 },
    );
  });
});

function chainOf(names: readonly string[]): Machine {
  const ways = names.slice(1).map((to, at): Way => [names[at] ?? '', to, { guards: [to] }]);
  return machineOf(
    names[0] ?? '',
    ways.map(([from, to]): Way => [from, to, { requiresReason: false }]),
    `machine of ${names[0]}`,
  );
}

function anyNames(): fc.Arbitrary<string[]> {
  const nasty = fc.string({
    unit: fc.constantFrom('"', '\\', '<', '>', '&', ';', '#', '\n', '\r', 'a', ':', '\u0001', 'é', '%'),
  });
  const name = fc.oneof(fc.constantFrom(...hostileNames), nasty, fc.string({ unit: 'binary' }));
  return fc.uniqueArray(name, { minLength: 2, maxLength: 6 });
}

/** Tags balance, attributes are quoted, and nothing else looks like markup: enough of XML for what Graphviz writes. */
function wellFormed(svg: string): boolean {
  const open: string[] = [];
  const text = svg.replace(
    /<(\/?)(\w+)((?:\s+[\w:-]+="[^"<]*")*)\s*(\/?)>/g,
    (_all, close, name, _attributes, empty) => {
      if (close === '/') return open.pop() === name ? '' : '<';
      if (empty !== '/') open.push(String(name));
      return '';
    },
  );
  const plain = text.replace(/&(amp|lt|gt|quot|#\d+);/g, '');
  return open.length === 0 && !/[<>&]|[^\P{Cc}\n]|\p{Cs}/u.test(plain);
}
