/** For commander: an option that may be repeated. */
export function collect(value: string, all: string[]): string[] {
  return [...all, value];
}
