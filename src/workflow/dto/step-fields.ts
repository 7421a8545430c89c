import { type FieldOptions, PatternField, TextField } from '../../validation/index.js';

/** The name of the state that a step leads to. */
export function StateField(said: FieldOptions = {}): PropertyDecorator {
  return PatternField(/^[a-z][a-z0-9_]{0,62}$/, 'must be the name of a state', {
    description: 'The state to go to.',
    ...said,
  });
}

/** Why a step is taken, for its history. It may be missing; whether the step needs it is for the machine to say. */
export function ReasonField(said: FieldOptions = {}): PropertyDecorator {
  return TextField({
    optional: true,
    max: 500,
    description: 'Why; some steps require it. No place for personal data: it is kept for ever.',
    ...said,
  });
}
