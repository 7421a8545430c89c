import {
  allowedFrom,
  finalStates,
  isKnownState,
  reachableStates,
  type Machine,
  type TransitionRule,
} from './machine.js';
import type { DiagramTone } from './diagram-theme.js';

/** Where something stands in the machine, and the states it came through, oldest first. */
export interface DiagramOptions {
  current?: string | undefined;
  visited?: readonly string[] | undefined;
}

export interface DiagramNode {
  state: string;
  tone: DiagramTone;
  final: boolean;
  current: boolean;
  visited: boolean;
  /** False for a current or visited state that the machine no longer has. */
  known: boolean;
  /** Lies on the longest way through the machine, which is drawn as a straight line. */
  main: boolean;
}

export interface DiagramEdge {
  from: string;
  to: string;
  /** Empty where all rules of the machine have the same roles: then they say nothing. */
  roles: string;
  reason: string;
  guards: string;
  visited: boolean;
  main: boolean;
}

/** All that the three kinds of pictures have in common: what is drawn, before how. */
export interface DiagramModel {
  name: string;
  initialState: string;
  title: string;
  description: string;
  nodes: DiagramNode[];
  edges: DiagramEdge[];
}

/** Decides what the picture of a machine shows. */
export function diagramModel(machine: Machine, options: DiagramOptions = {}): DiagramModel {
  const journey = [...(options.visited ?? []), ...(options.current === undefined ? [] : [options.current])];
  const main = longestWay(machine, backwardRules(machine));
  const finals = finalStates(machine);
  const reachable = new Set(reachableStates(machine));
  const states = [...new Set([...main, ...machine.states, ...journey])];
  const tone = (state: string): DiagramTone => {
    if (!isKnownState(machine, state) || !reachable.has(state)) return 'removed';
    if (state === machine.initialState) return 'initial';
    if (!finals.includes(state)) return 'between';
    return state === main.at(-1) ? 'completed' : 'ended';
  };
  const sameRoles = new Set(machine.rules.map((rule) => rolesOf(rule))).size === 1;
  return {
    name: machine.name,
    initialState: machine.initialState,
    title: `${machine.name}: states and transitions`,
    description: describeMachine(machine, finals, options.current),
    nodes: states.map((state) => ({
      state,
      tone: tone(state),
      final: finals.includes(state),
      current: state === options.current,
      visited: journey.includes(state),
      known: isKnownState(machine, state),
      main: main.includes(state),
    })),
    edges: machine.rules.map((rule) => ({
      from: rule.from,
      to: rule.to,
      roles: sameRoles ? '' : rolesOf(rule) || 'nobody',
      reason: rule.requiresReason ? 'with reason' : '',
      guards: rule.guards.length > 0 ? `[${rule.guards.join(', ')}]` : '',
      visited: follows(rule.from, rule.to, journey),
      main: follows(rule.from, rule.to, main),
    })),
  };
}

/** Whether one state comes right after another in a list. */
function follows(earlier: string, later: string, list: readonly string[]): boolean {
  return list.some((state, at) => state === earlier && list[at + 1] === later);
}

function rolesOf(rule: TransitionRule): string {
  return rule.roles.toSorted().join(', ');
}

function describeMachine(machine: Machine, finals: string[], current: string | undefined): string {
  const ways = machine.rules.map((rule) => {
    const conditions = [
      ...(rule.requiresReason ? ['a reason is required'] : []),
      ...(rule.guards.length > 0 ? [`guarded by ${rule.guards.join(', ')}`] : []),
    ];
    return `${rule.from} to ${rule.to}${conditions.length > 0 ? ` (${conditions.join('; ')})` : ''}`;
  });
  return [
    `Starts in ${machine.initialState}.`,
    ways.length > 0 ? `Goes from ${ways.join(', ')}.` : 'Goes nowhere from there.',
    ...(finals.length > 0 ? [`Ends in ${finals.join(' or ')}.`] : []),
    ...(current === undefined ? [] : [`Now in ${current}.`]),
  ].join(' ');
}

/** Rules that close a circle, seen from the initial state; without them the machine has no circles. */
function backwardRules(machine: Machine): Set<TransitionRule> {
  const back = new Set<TransitionRule>();
  const seen = new Map<string, 'open' | 'done'>();
  const visit = (state: string): void => {
    seen.set(state, 'open');
    for (const rule of allowedFrom(machine, state)) {
      if (seen.get(rule.to) === 'open') back.add(rule);
      else if (!seen.has(rule.to)) visit(rule.to);
    }
    seen.set(state, 'done');
  };
  for (const state of [machine.initialState, ...machine.states]) if (!seen.has(state)) visit(state);
  return back;
}

/** The longest way from the initial state that closes no circle: most often the story that ends well. */
function longestWay(machine: Machine, back: ReadonlySet<TransitionRule>): string[] {
  const known = new Map<string, string[]>();
  const from = (state: string): string[] => {
    const found = known.get(state);
    if (found) return found;
    const onwards = allowedFrom(machine, state).filter((rule) => !back.has(rule));
    const ways = onwards.map((rule) => from(rule.to));
    const longest = ways.reduce<string[]>((best, way) => (way.length > best.length ? way : best), []);
    const way = [state, ...longest];
    known.set(state, way);
    return way;
  };
  return from(machine.initialState);
}
