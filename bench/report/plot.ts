import { format, goalText, median, type Row } from './row.js';
import { verdict } from './table.js';

const ROW_HEIGHT = 44;
const LABEL_WIDTH = 470;
const BAR_WIDTH = 300;
const MARGIN = 24;
const MOST_LETTERS = 72;
const COLOURS = { met: '#2f855a', missed: '#c05621', '': '#4a5568' } as const;

/**
 * A bar for each row with a goal: how far it is reached. Every goal stands at the same place, and right of it is better, also
 * where less is better; the thin line is the range of the rounds.
 */
export function plot(all: readonly Row[], subtitle: string): string {
  const rows = all.filter(({ goal }) => goal !== null);
  const height = MARGIN * 3 + rows.length * ROW_HEIGHT;
  const width = LABEL_WIDTH + BAR_WIDTH + 340;
  const goalAt = LABEL_WIDTH + BAR_WIDTH / 2;
  const bars = rows.map((row, index) => bar(row, MARGIN * 2.4 + index * ROW_HEIGHT)).join('\n');
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="${MARGIN}" y="${MARGIN}" font-size="15" font-weight="600">Waybill, measured figures against their goals</text>
<text x="${MARGIN}" y="${MARGIN + 18}" fill="#4a5568">${escape(subtitle)}</text>
<line x1="${goalAt}" y1="${MARGIN * 2}" x2="${goalAt}" y2="${height - MARGIN}" stroke="#a0aec0" stroke-dasharray="4 3"/>
<text x="${goalAt}" y="${height - 8}" fill="#4a5568" text-anchor="middle">the goal; right of it is better</text>
${bars}
</svg>
`;
}

function bar(row: Row, y: number): string {
  const [low, high] = [Math.min(...row.figures), Math.max(...row.figures)].map((figure) => placeOf(row, figure));
  const end = placeOf(row, median(row.figures));
  const text = `${format(median(row.figures))} ${row.unit}, goal ${goalText(row.goal, row.unit)}`;
  const colour = COLOURS[verdict(row) as keyof typeof COLOURS];
  return `<text x="${LABEL_WIDTH - 10}" y="${y + 9}" text-anchor="end">${shortened(row.measure)}</text>
<text x="${LABEL_WIDTH - 10}" y="${y + 24}" text-anchor="end" fill="#718096" font-size="11">${shortened(row.against && `to ${row.against}`)}</text>
<rect x="${LABEL_WIDTH}" y="${y}" width="${(end - LABEL_WIDTH).toFixed(1)}" height="20" rx="2" fill="${colour}"/>
<line x1="${low?.toFixed(1)}" y1="${y + 10}" x2="${high?.toFixed(1)}" y2="${y + 10}" stroke="#1a202c"/>
<text x="${LABEL_WIDTH + BAR_WIDTH + 12}" y="${y + 14}" fill="${colour}">${escape(text)}</text>`;
}

/** Twice as good as the goal is where the axis ends: by how much more is written beside it. */
function placeOf({ goal }: Row, figure: number): number {
  const reached = goal?.atLeast === undefined ? (goal?.atMost ?? 0) / figure : figure / goal.atLeast;
  return LABEL_WIDTH + (Math.min(2, reached) * BAR_WIDTH) / 2;
}

function shortened(label: string): string {
  const shown = label.length > MOST_LETTERS ? `${label.slice(0, MOST_LETTERS - 1)}…` : label;
  return `${escape(shown)}<title>${escape(label)}</title>`;
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
