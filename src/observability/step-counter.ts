/** A step of a state machine, by where it led. */
export interface CountedStep {
  machine: string;
  to: string;
}

/** Counts the steps of state machines that this process has made since its start. */
export class StepCounter {
  private readonly counts = new Map<string, { step: CountedStep; times: number }>();

  count({ machine, to }: CountedStep): void {
    const name = `${machine}/${to}`;
    const times = (this.counts.get(name)?.times ?? 0) + 1;
    this.counts.set(name, { step: { machine, to }, times });
  }

  /** Each step that was made at least once. */
  all(): { step: CountedStep; times: number }[] {
    return [...this.counts.values()];
  }

  /** Steps to a state, of whichever machine. */
  timesTo(state: string): number {
    return this.all().reduce((sum, { step, times }) => (step.to === state ? sum + times : sum), 0);
  }
}
