/**
 * State machines as pure data and decisions. The tables `machines` and `valid_transitions` are the only truth; what is
 * here reads their rows and answers questions about them. The database's trigger gives the same answers again, for
 * whoever comes past the service.
 */

/** One row of `valid_transitions`: who may move something from one state to another, and under what conditions. */
export interface TransitionRule {
  machine: string;
  from: string;
  to: string;
  /** Any one of these roles suffices. */
  roles: string[];
  requiresReason: boolean;
  /** Names of guards, found among the providers marked `@TransitionGuard`. */
  guards: string[];
}

/** A machine with its states in the order in which they are reached from the initial state. */
export interface Machine {
  name: string;
  initialState: string;
  states: string[];
  rules: TransitionRule[];
}

/** One row of `machines`. */
export interface MachineRow {
  machine: string;
  initialState: string;
}

/** What the caller of a transition brings along. */
export interface TransitionAttempt {
  roles: readonly string[];
  hasReason: boolean;
}

/** The answer to "may this move?"; guards are asked afterwards, since they read the database. */
export type TransitionDecision =
  | { kind: 'allowed'; rule: TransitionRule }
  | { kind: 'already-in-state' }
  | { kind: 'illegal'; allowed: string[]; unknownStates: string[] }
  | { kind: 'role-required'; roles: string[] }
  | { kind: 'reason-required' };

/**
 * Joins the rows of the two tables into machines, by name.
 * @throws Error when a rule names a machine that has no row in `machines`.
 */
export function buildMachines(
  machineRows: readonly MachineRow[],
  rules: readonly TransitionRule[],
): Map<string, Machine> {
  const machines = new Map<string, Machine>();
  for (const { machine: name, initialState } of machineRows) {
    const own = rules.filter((rule) => rule.machine === name);
    machines.set(name, { name, initialState, states: statesInOrder(initialState, own), rules: own });
  }
  const orphan = rules.find((rule) => !machines.has(rule.machine));
  if (orphan) {
    throw new Error(
      `valid_transitions has ${describeRule(orphan)}, but machines has no row for '${orphan.machine}': ` +
        'insert one with its initial state.',
    );
  }
  return machines;
}

/** The states that no rule leads out of. */
export function finalStates(machine: Machine): string[] {
  return machine.states.filter((state) => allowedFrom(machine, state).length === 0);
}

/** The rules that lead out of a state; none for a final state and for one that the machine doesn't have. */
export function allowedFrom(machine: Machine, state: string): TransitionRule[] {
  return machine.rules.filter((rule) => rule.from === state && rule.to !== state);
}

/** Whether the machine has this state; an entity can be in one that a later version removed. */
export function isKnownState(machine: Machine, state: string): boolean {
  return machine.states.includes(state);
}

/** The states that can be reached from the initial state, itself included, nearest first. */
export function reachableStates(machine: Machine): string[] {
  return walk(machine.initialState, machine.rules);
}

/**
 * Problems in the tables that would surprise somebody later, as sentences that say what to do. Empty when all is well;
 * the start of the service fails otherwise.
 *
 * @param decided by machine the states that somebody decides to move to; a machine that isn't there has only such
 */
export function checkMachines(
  machines: ReadonlyMap<string, Machine>,
  knownGuards: ReadonlySet<string>,
  decided: ReadonlyMap<string, ReadonlySet<string>> = new Map(),
): string[] {
  return [...machines.values()].flatMap((machine) => [
    ...checkMachine(machine, knownGuards),
    ...checkUnasked(machine, decided.get(machine.name)),
  ]);
}

/**
 * Decides whether something in state `from` may move to `to`. Total: every pair of strings has an answer. Being there
 * already comes first, so that a second click is not told of roles; roles come before the reason, so that nobody is
 * asked for a reason in vain.
 */
export function explainTransition(
  machine: Machine,
  from: string,
  to: string,
  attempt: TransitionAttempt,
): TransitionDecision {
  if (from === to) return { kind: 'already-in-state' };
  const ways = allowedFrom(machine, from);
  const rule = ways.find((way) => way.to === to);
  if (!rule) {
    return {
      kind: 'illegal',
      allowed: ways.map((way) => way.to),
      unknownStates: [from, to].filter((state) => !isKnownState(machine, state)),
    };
  }
  if (!rule.roles.some((role) => attempt.roles.includes(role))) return { kind: 'role-required', roles: rule.roles };
  if (rule.requiresReason && !attempt.hasReason) return { kind: 'reason-required' };
  return { kind: 'allowed', rule };
}

/** A decision as one sentence for people: for logs, problem details and the command line. */
export function describeDecision(machine: Machine, from: string, to: string, decision: TransitionDecision): string {
  switch (decision.kind) {
    case 'allowed':
      return `${machine.name} may move from '${from}' to '${to}'.`;
    case 'already-in-state':
      return `${machine.name} is already in state '${to}'.`;
    case 'illegal':
      return describeIllegal(machine, from, to, decision.allowed);
    case 'role-required':
      return decision.roles.length === 0
        ? `No role may move ${machine.name} from '${from}' to '${to}': its rule lists none.`
        : `Moving ${machine.name} from '${from}' to '${to}' takes ${oneOf(decision.roles)}.`;
    case 'reason-required':
      return `Moving ${machine.name} from '${from}' to '${to}' takes a reason.`;
    default: {
      const unhandled: never = decision;
      throw new Error(`unhandled decision ${JSON.stringify(unhandled)}`);
    }
  }
}

function describeIllegal(machine: Machine, from: string, to: string, allowed: string[]): string {
  const sentence = `${machine.name} can't move from '${from}' to '${to}'`;
  if (!isKnownState(machine, from)) {
    return `${sentence}: the machine has no state '${from}' (any more), so no way leads out of it.`;
  }
  if (!isKnownState(machine, to)) return `${sentence}: the machine has no state '${to}'.`;
  if (allowed.length === 0) return `${sentence}: '${from}' is final.`;
  return `${sentence}: from '${from}' it can go to ${allowed.map((state) => `'${state}'`).join(', ')}.`;
}

function oneOf(roles: string[]): string {
  return roles.length === 1 ? `the role ${roles[0]}` : `one of the roles ${roles.join(', ')}`;
}

function checkMachine(machine: Machine, knownGuards: ReadonlySet<string>): string[] {
  if (machine.rules.length === 0) {
    return [
      `Machine '${machine.name}' has no rules, so nothing can leave '${machine.initialState}': ` +
        'insert rows into valid_transitions, or delete the machine.',
    ];
  }
  const reachable = new Set(reachableStates(machine));
  const unreachable = machine.states
    .filter((state) => !reachable.has(state))
    .map(
      (state) =>
        `Machine '${machine.name}': state '${state}' can't be reached from the initial state ` +
        `'${machine.initialState}': insert a transition that leads to it, or delete those that name it.`,
    );
  return [...unreachable, ...machine.rules.flatMap((rule) => checkRule(rule, knownGuards))];
}

function checkRule(rule: TransitionRule, knownGuards: ReadonlySet<string>): string[] {
  const where = `Machine '${rule.machine}': ${describeRule(rule)}`;
  const problems: string[] = [];
  if (rule.from === rule.to) problems.push(`${where} leads to where it starts and never applies: delete it.`);
  if (rule.roles.length === 0) problems.push(`${where} has no roles, so nobody may take it: list at least one role.`);
  for (const guard of new Set(rule.guards)) {
    if (knownGuards.has(guard)) continue;
    problems.push(
      `${where} names the guard '${guard}', but no provider has it: add a provider marked ` +
        `@TransitionGuard('${guard}') to a module, or take the guard out of the rule.`,
    );
  }
  return problems;
}

function checkUnasked(machine: Machine, decided: ReadonlySet<string> | undefined): string[] {
  if (!decided) return [];
  return machine.rules
    .filter(({ to, guards }) => guards.length > 0 && !decided.has(to))
    .map(
      (rule) =>
        `Machine '${machine.name}': ${describeRule(rule)} names guards, but that step only follows what happened elsewhere, ` +
        'which nobody can refuse: take the guards out of the rule.',
    );
}

function describeRule(rule: TransitionRule): string {
  return `the rule ${rule.from} → ${rule.to}`;
}

function statesInOrder(initialState: string, rules: readonly TransitionRule[]): string[] {
  const all = rules.flatMap((rule) => [rule.from, rule.to]);
  return [...new Set([...walk(initialState, rules), ...all])];
}

function walk(start: string, rules: readonly TransitionRule[]): string[] {
  const found = new Set([start]);
  // A set yields what is added while it is walked: breadth first without a queue of its own.
  for (const state of found) {
    for (const rule of rules) if (rule.from === state) found.add(rule.to);
  }
  return [...found];
}
