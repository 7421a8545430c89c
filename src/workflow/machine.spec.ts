import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import {
  allowedFrom,
  buildMachines,
  checkMachines,
  describeDecision,
  explainTransition,
  finalStates,
  isKnownState,
  reachableStates,
  type Machine,
  type TransitionRule,
} from './machine.js';

const rule = (from: string, to: string, more: Partial<TransitionRule> = {}): TransitionRule => ({
  machine: 'order',
  from,
  to,
  roles: ['admin', 'operator'],
  requiresReason: to === 'canceled',
  guards: [],
  ...more,
});

const orderRules = [
  rule('pending', 'canceled'),
  rule('pending', 'confirmed'),
  rule('confirmed', 'canceled', { roles: ['admin'] }),
  rule('confirmed', 'shipped'),
  rule('shipped', 'delivered'),
];
const build = (rules: TransitionRule[], initialState = 'pending'): Machine => {
  const machine = buildMachines([{ machine: 'order', initialState }], rules).get('order');
  if (!machine) throw new Error('the machine was not built');
  return machine;
};
const order = build(orderRules);
const check = (machine: Machine, guards: string[] = []): string[] =>
  checkMachines(new Map([[machine.name, machine]]), new Set(guards));
const operator = { roles: ['operator'], hasReason: false };

describe('buildMachines', () => {
  it('lists the states nearest to the initial one first, each once', () => {
    expect(order.states).toEqual(['pending', 'canceled', 'confirmed', 'shipped', 'delivered']);
  });

  it('keeps machines apart', () => {
    const machines = buildMachines(
      [
        { machine: 'order', initialState: 'pending' },
        { machine: 'parcel', initialState: 'packed' },
      ],
      [...orderRules, rule('packed', 'sent', { machine: 'parcel' })],
    );
    expect(machines.get('parcel')?.states).toEqual(['packed', 'sent']);
    expect(machines.get('order')?.rules).toHaveLength(5);
  });

  it('refuses a rule whose machine has no row, and says what to insert', () => {
    expect(() => buildMachines([], [rule('a', 'b')])).toThrow(/machines has no row for 'order': insert one/);
  });
});

describe('explainTransition', () => {
  it.each([
    ['pending', 'confirmed', operator, { kind: 'allowed', rule: orderRules[1] }],
    ['pending', 'pending', operator, { kind: 'already-in-state' }],
    ['pending', 'shipped', operator, { kind: 'illegal', allowed: ['canceled', 'confirmed'], unknownStates: [] }],
    ['delivered', 'pending', operator, { kind: 'illegal', allowed: [], unknownStates: [] }],
    ['pending', 'lost', operator, { kind: 'illegal', allowed: ['canceled', 'confirmed'], unknownStates: ['lost'] }],
    ['pending', 'confirmed', { roles: ['viewer'], hasReason: true }, { kind: 'role-required' }],
    ['confirmed', 'canceled', operator, { kind: 'role-required', roles: ['admin'] }],
    ['pending', 'canceled', operator, { kind: 'reason-required' }],
    ['pending', 'canceled', { ...operator, hasReason: true }, { kind: 'allowed', rule: orderRules[0] }],
  ])('from %s to %s, by %j, is %j', (from, to, attempt, expected) => {
    expect(explainTransition(order, from, to, attempt)).toMatchObject(expected);
  });

  it('allows nothing from a state that a later version removed, and names that state', () => {
    expect(isKnownState(order, 'on-hold')).toBe(false);
    expect(allowedFrom(order, 'on-hold')).toEqual([]);
    const decision = explainTransition(order, 'on-hold', 'confirmed', operator);
    expect(decision).toEqual({ kind: 'illegal', allowed: [], unknownStates: ['on-hold'] });
    expect(describeDecision(order, 'on-hold', 'confirmed', decision)).toMatch(/no state 'on-hold' \(any more\)/);
  });

  it.each([
    ['pending', 'shipped', "it can go to 'canceled', 'confirmed'"],
    ['delivered', 'pending', "'delivered' is final"],
    ['pending', 'lost', "no state 'lost'"],
    ['confirmed', 'canceled', 'takes the role admin'],
    ['pending', 'canceled', 'takes a reason'],
    ['pending', 'pending', "already in state 'pending'"],
    ['pending', 'confirmed', "may move from 'pending' to 'confirmed'"],
  ])('describes %s to %s in words: %s', (from, to, words) => {
    const decision = explainTransition(order, from, to, operator);
    expect(describeDecision(order, from, to, decision)).toContain(words);
  });
});

describe('checkMachines', () => {
  it('finds nothing wrong with the order machine', () => {
    expect(check(order)).toEqual([]);
  });

  it.each([
    [
      'a guard that no provider has',
      rule('pending', 'confirmed', { guards: ['stock'] }),
      /@TransitionGuard\('stock'\)/,
    ],
    [
      'a state that cannot be reached',
      rule('returned', 'shipped'),
      /'returned' can't be reached .* insert a transition/,
    ],
    ['a rule without roles', rule('pending', 'confirmed', { roles: [] }), /nobody may take it: list at least one role/],
    ['a rule from a state to itself', rule('pending', 'pending'), /never applies: delete it/],
  ])('reports %s and says what to do', (_what, broken, sentence) => {
    const rules = [...orderRules.filter((one) => one.to !== broken.to || one.from !== broken.from), broken];
    const problems = check(build(rules), ['credit']);
    expect(problems).toEqual([expect.stringMatching(sentence)]);
  });

  it('reports a machine without rules', () => {
    expect(check(build([]))).toEqual([expect.stringMatching(/'order' has no rules/)]);
  });

  it('accepts a guard that a provider has', () => {
    const guarded = build([rule('pending', 'confirmed', { guards: ['stock'] })]);
    expect(check(guarded, ['stock'])).toEqual([]);
  });
});

describe('any machine', () => {
  const state = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f');
  const role = fc.constantFrom<string>('admin', 'operator', 'viewer');
  const anyRule = fc.record({
    machine: fc.constant('order'),
    from: state,
    to: state,
    roles: fc.uniqueArray(role),
    requiresReason: fc.boolean(),
    guards: fc.constant<string[]>([]),
  });
  const anyMachine = fc
    .uniqueArray(anyRule, { selector: (one) => `${one.from}${one.to}`, maxLength: 20 })
    .map((rules) => build(rules, 'a'));
  const anyAttempt = fc.record({ roles: fc.uniqueArray(role), hasReason: fc.boolean() });

  it('reaches exactly the states that random walks along its rules can end in', () => {
    fc.assert(
      fc.property(anyMachine, fc.array(fc.nat(), { maxLength: 30 }), (machine, turns) => {
        let at = machine.initialState;
        for (const turn of turns) {
          const ways = allowedFrom(machine, at);
          at = ways[turn % Math.max(ways.length, 1)]?.to ?? at;
          expect(reachableStates(machine)).toContain(at);
        }
      }),
    );
  });

  it('reports as unreachable exactly the states that it does not reach', () => {
    fc.assert(
      fc.property(anyMachine, (machine) => {
        fc.pre(machine.rules.length > 0);
        const problems = check(machine);
        for (const one of machine.states) {
          const reported = problems.some((problem) => problem.includes(`state '${one}' can't be reached`));
          expect(reported).toBe(!reachableStates(machine).includes(one));
        }
      }),
    );
  });

  it('has, from every reachable state, a way on, or that state is final', () => {
    fc.assert(
      fc.property(anyMachine, (machine) => {
        for (const from of reachableStates(machine)) {
          const wayOn = machine.states.some((to) => mayEver(machine, from, to));
          expect(wayOn).toBe(!finalStates(machine).includes(from));
        }
      }),
    );
  });

  it('answers every pair of states, and allows a move only along a rule, with its role and reason', () => {
    const anyState = fc.oneof(state, fc.string());
    fc.assert(
      fc.property(anyMachine, anyState, anyState, anyAttempt, (machine, from, to, attempt) => {
        const decision = explainTransition(machine, from, to, attempt);
        expect(describeDecision(machine, from, to, decision)).toMatch(/\.$/);
        const way = machine.rules.find((one) => one.from === from && one.to === to && from !== to);
        const fits =
          way?.roles.some((one) => attempt.roles.includes(one)) === true && (!way.requiresReason || attempt.hasReason);
        expect(decision.kind === 'allowed').toBe(fits);
      }),
    );
  });
});

describe('the order machine', () => {
  it('leads from every state to a final one', () => {
    for (const from of order.states) {
      const onwards = reachableStates({ ...order, initialState: from });
      expect(onwards.some((one) => finalStates(order).includes(one))).toBe(true);
    }
  });
});

function mayEver(machine: Machine, from: string, to: string): boolean {
  const decision = explainTransition(machine, from, to, { roles: ['admin', 'operator', 'viewer'], hasReason: true });
  return decision.kind === 'allowed' || decision.kind === 'role-required';
}
