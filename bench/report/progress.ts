/** One line at the bottom of a terminal; lines of their own where nobody watches. */
export class Progress {
  private readonly started = Date.now();
  private topic = '';

  constructor(private readonly stream: NodeJS.WriteStream = process.stderr) {}

  begin(topic: string): void {
    this.topic = topic;
    this.say('');
  }

  say(text: string): void {
    const seconds = ((Date.now() - this.started) / 1000).toFixed(0).padStart(4);
    const line = `${seconds} s  ${this.topic}${text ? `: ${text}` : ''}`;
    if (this.stream.isTTY) this.stream.write(`\r\u001B[K${line.slice(0, this.stream.columns - 1)}`);
    else this.stream.write(`${line}\n`);
  }

  done(): void {
    if (this.stream.isTTY) this.stream.write('\r\u001B[K');
  }
}
