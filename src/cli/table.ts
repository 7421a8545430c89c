/** Rows below their titles, in columns as wide as needed. */
export function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [titles, ...rows];
  const widths = titles.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  return all
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
