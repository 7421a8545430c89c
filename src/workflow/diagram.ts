/**
 * Pictures of a machine: DOT, Mermaid, and SVG drawn by Graphviz in WebAssembly. They are drawn from the rules that are
 * in force, so they can't lag behind them.
 */
import {
  diagramModel,
  type DiagramEdge,
  type DiagramModel,
  type DiagramNode,
  type DiagramOptions,
} from './diagram-model.js';
import { quoteDot, textToDotLabel, textToDotMarkup, textToMermaid, textWidthInEm } from './diagram-text.js';
import { finishSvg } from './diagram-svg.js';
import { diagramColours } from './diagram-theme.js';
import type { Machine } from './machine.js';

export type { DiagramOptions } from './diagram-model.js';

const FONT = 'Inter,Segoe UI,Helvetica,Arial,sans-serif';
const NODE_FONT_SIZE = 13;
const THIN_LINE = '<br/><font point-size="4">&#160;</font>';

/** The machine as a Graphviz digraph, left to right; the names of states are the ids of its nodes. */
export function toDot(machine: Machine, options: DiagramOptions = {}): string {
  return dotOf(diagramModel(machine, options));
}

/** The machine as a Mermaid `stateDiagram-v2`. Mermaid ids are narrow: a name that doesn't fit gets an id and a label. */
export function toMermaid(machine: Machine, options: DiagramOptions = {}): string {
  const model = diagramModel(machine, options);
  const ids = mermaidIds(model.nodes);
  const id = (state: string): string => ids.get(state) ?? 'unknown';
  const aliases = model.nodes
    .filter((node) => id(node.state) !== node.state)
    .map((node) => `  state "${textToMermaid(node.state.trim() || '(empty)')}" as ${id(node.state)}`);
  const edges = model.edges.map((edge) => {
    const label = [edge.roles, edge.reason, edge.guards].filter((part) => part !== '').map(textToMermaid);
    return `  ${id(edge.from)} --> ${id(edge.to)}${label.length > 0 ? ` : ${label.join('<br/>')}` : ''}`;
  });
  const ends = model.nodes.filter((node) => node.final).map((node) => `  ${id(node.state)} --> [*]`);
  const colours = Object.entries(diagramColours).map(
    ([tone, { fill, line, text }]) => `  classDef ${tone} fill:${fill},stroke:${line},color:${text}`,
  );
  const classes = model.nodes.map((node) => `  class ${id(node.state)} ${node.tone}`);
  const here = model.nodes.filter((node) => node.current).map((node) => `  class ${id(node.state)} here`);
  return [
    'stateDiagram-v2',
    `  accTitle: ${textToMermaid(model.title.replaceAll('\n', ' '))}`,
    `  accDescr: ${textToMermaid(model.description.replaceAll('\n', ' '))}`,
    '  direction LR',
    ...aliases,
    `  [*] --> ${id(machine.initialState)}`,
    ...edges,
    ...ends,
    ...colours,
    '  classDef here stroke-width:3px,font-weight:bold',
    ...classes,
    ...here,
    '',
  ].join('\n');
}

/**
 * The machine as a standalone SVG: with title and description, a background of its own, and colours for light and dark.
 * Graphviz is loaded at the first call only, since that takes about as long as all the rest of a start.
 */
export async function toSvg(machine: Machine, options: DiagramOptions = {}): Promise<string> {
  const model = diagramModel(machine, options);
  return finishSvg(render(await loadGraphviz(), dotOf(model)), model);
}

function render(viz: Graphviz, dot: string): string {
  try {
    return viz.renderString(dot, { format: 'svg', engine: 'dot' });
  } catch (error) {
    // A WebAssembly instance that trapped may have broken memory: the next picture gets a fresh one.
    graphviz = undefined;
    throw error;
  }
}

type Graphviz = Awaited<ReturnType<(typeof import('@viz-js/viz'))['instance']>>;
let graphviz: Promise<Graphviz> | undefined;

function loadGraphviz(): Promise<Graphviz> {
  graphviz ??= import('@viz-js/viz').then((viz) => viz.instance());
  return graphviz;
}

function dotOf(model: DiagramModel): string {
  const ids = dotIds(model.nodes);
  const id = (state: string): string => ids.get(state) ?? quoteDot(state);
  const start = unused(quoteDot('start'), new Set(ids.values()));
  return [
    `digraph ${quoteDot(model.name)} {`,
    `  graph [rankdir=LR, bgcolor=transparent, pad=0.3, nodesep=0.5, ranksep=0.55, fontname="${FONT}"]`,
    `  node [shape=box, style="rounded,filled", fontname="${FONT}", fontsize=${NODE_FONT_SIZE}, height=0.5, penwidth=1.4]`,
    `  edge [fontname="${FONT}", fontsize=10, color="#64748b", fontcolor="#475569", penwidth=1.3, arrowsize=0.75]`,
    `  ${start} [shape=circle, style=filled, label="", width=0.17, height=0.17, color="#334155", fillcolor="#334155", class=start]`,
    ...model.nodes.map((node) => dotNode(node, id(node.state))),
    `  ${start} -> ${id(model.initialState)} [weight=20, class=entry]`,
    ...model.edges.map((edge) => dotEdge(edge, id(edge.from), id(edge.to))),
    '}',
    '',
  ].join('\n');
}

function dotNode(node: DiagramNode, id: string): string {
  const { fill, line, text } = diagramColours[node.tone];
  const attributes = [
    `label=${textToDotLabel(node.state)}`,
    // Graphviz has no metrics for the reader's font, least of all for scripts other than Latin: our own, on the safe side.
    `width=${Math.max(1.05, (textWidthInEm(node.state) * NODE_FONT_SIZE) / 72 + 0.45).toFixed(2)}`,
    `fillcolor="${fill}"`,
    `color="${line}"`,
    `fontcolor="${text}"`,
    `class="state ${node.tone}${node.current ? ' here' : ''}${node.visited ? ' visited' : ''}"`,
    ...(node.final ? ['peripheries=2'] : []),
    ...(node.known ? [] : ['style="rounded,filled,dashed"']),
    ...(node.current ? ['penwidth=3'] : []),
    ...(node.main ? ['group=main'] : []),
  ];
  return `  ${id} [${attributes.join(', ')}]`;
}

function dotEdge(edge: DiagramEdge, from: string, to: string): string {
  const markup = [
    ...(edge.roles ? [textToDotMarkup(edge.roles)] : []),
    ...(edge.reason ? [`<i>${textToDotMarkup(edge.reason)}</i>`] : []),
    ...(edge.guards ? [textToDotMarkup(edge.guards)] : []),
  ].join('<br/>');
  const attributes = [
    // No-break spaces and a thin last line keep the text off the line that it stands beside.
    ...(markup ? [`label=<&#160;${markup.replaceAll('<br/>', '&#160;<br/>&#160;')}&#160;${THIN_LINE}>`] : []),
    ...(edge.main ? ['weight=10'] : []),
    ...(edge.visited ? ['penwidth=2.6'] : []),
    `class="way${edge.visited ? ' visited' : ''}"`,
  ];
  return `  ${from} -> ${to} [${attributes.join(', ')}]`;
}

/** Names that differ only in characters that can't be shown still get ids of their own. */
function dotIds(nodes: readonly DiagramNode[]): Map<string, string> {
  const ids = new Map<string, string>();
  for (const { state } of nodes) ids.set(state, unused(quoteDot(state), new Set(ids.values())));
  return ids;
}

function unused(wish: string, taken: ReadonlySet<string>): string {
  let id = wish;
  while (taken.has(id)) id = `"_${id.slice(1)}`;
  return id;
}

const MERMAID_WORDS = new Set(
  'state end note class classdef style default direction as fork join choice acctitle accdescr click href hide scale of'
    .split(' ')
    .concat('left right statediagram root tb bt lr rl constructor prototype start'.split(' ')),
);

function mermaidIds(nodes: readonly DiagramNode[]): Map<string, string> {
  const taken = new Set(nodes.map((node) => node.state).filter(isMermaidId));
  const ids = new Map<string, string>();
  let next = 1;
  for (const { state } of nodes) {
    let id = state;
    while (!isMermaidId(state) && (id === state || taken.has(id))) id = `s${next++}`;
    taken.add(id);
    ids.set(state, id);
  }
  return ids;
}

function isMermaidId(state: string): boolean {
  return /^[a-z][a-z0-9_]{1,59}$/i.test(state) && !MERMAID_WORDS.has(state.toLowerCase());
}
