/** What one check found. */
export interface Finding {
  /** What was looked at, such as `triggers`. */
  check: string;
  /** `hint` is not known to be wrong; `fault` breaks a promise of the service, or its start. */
  verdict: 'ok' | 'hint' | 'fault' | 'unknown';
  detail: string;
  whatToDo?: string;
}

export function ok(check: string, detail: string): Finding {
  return { check, verdict: 'ok', detail };
}

export function hint(check: string, detail: string, whatToDo: string): Finding {
  return { check, verdict: 'hint', detail, whatToDo };
}

export function fault(check: string, detail: string, whatToDo: string): Finding {
  return { check, verdict: 'fault', detail, whatToDo };
}

export function unknown(check: string, detail: string, whatToDo: string): Finding {
  return { check, verdict: 'unknown', detail, whatToDo };
}

/** A fault for each of these, or the good news when there is none. */
export function faultsOr(check: string, details: readonly string[], whatToDo: string, goodNews: string): Finding[] {
  if (details.length === 0) return [ok(check, goodNews)];
  return details.map((detail) => fault(check, detail, whatToDo));
}
