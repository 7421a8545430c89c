import type { DiagramModel } from './diagram-model.js';
import { textToXml } from './diagram-text.js';
import { darkDiagramColours } from './diagram-theme.js';

/**
 * Makes Graphviz' SVG fit for a page and for people who don't see it: a role, title and description, tooltips in words,
 * a card as background (an SVG opened by itself gets a white page, also in dark mode), and a style sheet for dark mode.
 */
export function finishSvg(svg: string, model: DiagramModel): string {
  const [, width = '0', height = '0'] = /<svg width="([\d.]+)pt" height="([\d.]+)pt"/.exec(svg) ?? [];
  const inner = svg.slice(svg.indexOf('<g '), svg.lastIndexOf('</svg>')).replace(/<!--.*?-->\n?/gs, '');
  const label = textToXml(model.title);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" class="waybill-machine" role="img" aria-label="${label}"`,
    ` width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" style="max-width:100%;height:auto">\n`,
    `<title>${label}</title>\n<desc>${textToXml(model.description)}</desc>\n<style>${STYLE}</style>\n`,
    `<rect class="card" x="0.5" y="0.5" width="${inside(width)}" height="${inside(height)}" rx="12"`,
    ` fill="#ffffff" stroke="#e2e8f0"/>\n`,
    withTooltips(inner, model),
    '</svg>\n',
  ].join('');
}

/** Graphviz numbers nodes and edges as they come in the DOT text; the first of each are the marker of the start. */
function withTooltips(inner: string, model: DiagramModel): string {
  const tooltips = new Map<string, string>([
    ['node1', 'start'],
    ['edge1', `starts in ${model.initialState}`],
  ]);
  model.nodes.forEach((node, at) => {
    const notes = [
      ...(node.final ? ['final'] : []),
      ...(node.current ? ['now here'] : []),
      ...(node.known ? [] : ['no longer a state of this machine']),
    ];
    tooltips.set(`node${at + 2}`, node.state + (notes.length > 0 ? ` (${notes.join(', ')})` : ''));
  });
  model.edges.forEach((edge, at) => {
    const notes = [edge.roles, edge.reason, edge.guards].filter((note) => note !== '');
    tooltips.set(`edge${at + 2}`, `${edge.from} → ${edge.to}${notes.length > 0 ? ` (${notes.join('; ')})` : ''}`);
  });
  // Ids go, since two pictures can stand on one page.
  return inner.replace(/<g id="([a-z]+\d+)" (class="[^"]*"[^>]*)>\s*<title>.*?<\/title>/gs, (_all, id, rest) => {
    const tooltip = tooltips.get(String(id));
    return `<g ${rest}>${tooltip === undefined ? '' : `<title>${textToXml(tooltip)}</title>`}`;
  });
}

function inside(length: string): string {
  return String(Number(length) - 1);
}

const STYLE = [
  // A halo in the colour of the card keeps a label readable where a line crosses it.
  '.waybill-machine .edge text { paint-order: stroke; stroke: #ffffff; stroke-width: 2.5px; stroke-linejoin: round }',
  '@media (prefers-color-scheme: dark) {',
  '.waybill-machine .card { fill: #0f172a; stroke: #334155 }',
  '.waybill-machine .start ellipse { fill: #cbd5e1; stroke: #cbd5e1 }',
  '.waybill-machine .edge path { stroke: #94a3b8 }',
  '.waybill-machine .edge polygon { stroke: #94a3b8; fill: #94a3b8 }',
  '.waybill-machine .edge text { fill: #cbd5e1; stroke: #0f172a }',
  ...Object.entries(darkDiagramColours).map(
    ([tone, { fill, line, text }]) =>
      `.waybill-machine .${tone} path { stroke: ${line} } ` +
      `.waybill-machine .${tone} path:first-of-type { fill: ${fill} } .waybill-machine .${tone} text { fill: ${text} }`,
  ),
  '}',
].join('\n');
