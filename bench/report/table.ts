import { format, goalText, isMet, median, type Row } from './row.js';

/** The table as Markdown: the measure, what it is a ratio to, goal, median, spread, verdict. */
export function markdownTable(rows: readonly Row[]): string {
  const head = ['measure', 'ratio to', 'goal', 'median', 'lowest to highest', ''];
  const body = rows.map((row) => [
    row.measure,
    row.against,
    goalText(row.goal, row.unit),
    `**${format(median(row.figures))}** ${row.unit}`,
    `${format(Math.min(...row.figures))} to ${format(Math.max(...row.figures))}`,
    verdict(row),
  ]);
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...body.map(line)].join('\n');
}

/** What stands behind each figure. */
export function detailList(rows: readonly Row[]): string {
  return rows
    .map((row) => {
      const title = row.against ? `${row.measure}, to ${row.against}` : row.measure;
      const details = Object.entries(row.details).map(([name, text]) => `    ${name}: ${text}`);
      return [`  ${title}`, ...details].join('\n');
    })
    .join('\n');
}

export function verdict(row: Row): string {
  const met = isMet(row);
  return met === null ? '' : met ? 'met' : 'missed';
}
