/** What a progress display writes to; a `tty.WriteStream` or any other stream. */
export interface ProgressOutput {
  isTTY?: boolean;
  columns?: number;
  write(text: string): unknown;
}

const REDRAW_MS = 80;
const LINE_EVERY_MS = 2_000;
const BAR_WIDTH = 28;
const EIGHTHS = ' ▏▎▍▌▋▊▉';

/** Shows how far something is: a bar that redraws itself on a terminal, and a line now and then elsewhere. */
export class Progress {
  private readonly startedAt: number;
  private drawnAt = -Infinity;
  private drawnTenth = 0;
  private barShown = false;
  private done = 0;
  private details = '';

  /** @param title what is going on, in a word or two */
  constructor(
    private readonly title: string,
    private readonly total: number,
    private readonly output: ProgressOutput,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.startedAt = now();
  }

  update(done: number, details: string): void {
    this.done = done;
    this.details = details;
    if (this.output.isTTY === true) this.redrawBar(REDRAW_MS);
    else this.writeLine();
  }

  /** A sentence in between, above the bar. */
  note(sentence: string): void {
    this.clear();
    this.output.write(`${sentence}\n`);
    this.drawnAt = -Infinity;
  }

  /** Takes the bar away; what it showed is in the summary. */
  finish(): void {
    this.clear();
  }

  private redrawBar(everyMs: number): void {
    if (this.now() - this.drawnAt < everyMs) return;
    this.drawnAt = this.now();
    const share = this.total === 0 ? 1 : this.done / this.total;
    const text = `${this.title} ${bar(share)} ${this.counts()}  ${this.details}${this.remaining()}`;
    const room = Math.max(20, this.output.columns || 80) - 1;
    this.output.write(`\r\u001b[2K${Array.from(text).slice(0, room).join('')}`);
    this.barShown = true;
  }

  private writeLine(): void {
    const tenth = Math.floor((10 * this.done) / Math.max(1, this.total));
    const finished = this.done >= this.total;
    if (tenth === this.drawnTenth || (!finished && this.now() - this.drawnAt < LINE_EVERY_MS)) return;
    this.drawnAt = this.now();
    this.drawnTenth = tenth;
    this.output.write(`${this.title}: ${this.counts()}  ${this.details}\n`);
  }

  private clear(): void {
    if (this.barShown) this.output.write('\r\u001b[2K');
    this.barShown = false;
  }

  private counts(): string {
    return `${this.done.toLocaleString('en-US')} of ${this.total.toLocaleString('en-US')}`;
  }

  private remaining(): string {
    const seconds = (this.now() - this.startedAt) / 1000;
    if (seconds < 1 || this.done === 0 || this.done >= this.total) return '';
    const left = Math.ceil((seconds / this.done) * (this.total - this.done));
    return left < 100 ? `  ${left} s left` : `  ${Math.ceil(left / 60)} min left`;
  }
}

function bar(share: number): string {
  const eighths = Math.round(Math.min(1, share) * BAR_WIDTH * 8);
  const full = '█'.repeat(Math.floor(eighths / 8));
  const part = eighths % 8 === 0 ? '' : EIGHTHS.charAt(eighths % 8);
  return `▕${(full + part).padEnd(BAR_WIDTH)}▏`;
}
