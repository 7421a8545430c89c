import { format, goalText, median, type Row } from './row.js';
import { verdict } from './table.js';

const ROW_HEIGHT = 34;
const LABEL_WIDTH = 560;
const BAR_WIDTH = 300;
const MARGIN = 24;
const COLOURS = { met: '#2f855a', missed: '#c05621', '': '#4a5568' } as const;

/** A bar for each row, scaled so that every goal stands at the same place: 1 on the axis is the goal. */
export function plot(rows: readonly Row[], subtitle: string): string {
  const height = MARGIN * 3 + rows.length * ROW_HEIGHT;
  const width = LABEL_WIDTH + BAR_WIDTH + 260;
  const goalAt = LABEL_WIDTH + BAR_WIDTH / 2;
  const bars = rows.map((row, index) => bar(row, MARGIN * 2.4 + index * ROW_HEIGHT)).join('\n');
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="${MARGIN}" y="${MARGIN}" font-size="15" font-weight="600">Waybill, measured figures against their goals</text>
<text x="${MARGIN}" y="${MARGIN + 18}" fill="#4a5568">${escape(subtitle)}</text>
<line x1="${goalAt}" y1="${MARGIN * 2}" x2="${goalAt}" y2="${height - MARGIN}" stroke="#a0aec0" stroke-dasharray="4 3"/>
<text x="${goalAt}" y="${height - 8}" fill="#4a5568" text-anchor="middle">the goal</text>
${bars}
</svg>
`;
}

function bar(row: Row, y: number): string {
  const figure = median(row.figures);
  const target = row.goal?.atLeast ?? row.goal?.atMost;
  // Beyond twice the goal the bar ends: by how much is written beside it.
  const share = target === undefined ? 0 : Math.min(2, figure / target);
  const width = (share * BAR_WIDTH) / 2;
  const label = row.against ? `${row.measure} / ${row.against}` : row.measure;
  const shown = label.length > 88 ? `${label.slice(0, 87)}…` : label;
  const text = `${format(figure)} ${row.unit}${row.goal ? ` (goal ${goalText(row.goal, row.unit)})` : ''}`;
  const colour = COLOURS[verdict(row) as keyof typeof COLOURS];
  return `<text x="${LABEL_WIDTH - 10}" y="${y + 14}" text-anchor="end">${escape(shown)}<title>${escape(label)}</title></text>
<rect x="${LABEL_WIDTH}" y="${y}" width="${width.toFixed(1)}" height="20" rx="2" fill="${colour}"/>
<text x="${LABEL_WIDTH + BAR_WIDTH + 12}" y="${y + 14}" fill="${colour}">${escape(text)}</text>`;
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
