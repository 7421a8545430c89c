import { getMetadataStorage, ValidationTypes } from 'class-validator';

type Members = Record<string, unknown>;
type Check = (value: unknown, object: Members) => boolean;

/** What the decorators of one property ask for. */
interface PropertyChecks {
  name: string;
  /** `@IsOptional()` and its like: when one says no, the property isn't looked at. */
  conditions: Check[];
  checks: Check[];
}

/** Null for a class with decorators that are not understood here. */
type ClassChecks = readonly PropertyChecks[] | null;

/**
 * Whether an instance has no fault, by the same decorators and validators that class-validator runs. It knows only the good case:
 * false means "ask class-validator", which finds the words, and looks its metadata up and makes an error object for every property of
 * every request. Here the metadata are looked up once a class.
 */
export function isFaultless(object: object): boolean {
  const properties = checksOf(object.constructor);
  if (!properties) return false;
  const members = object as Members;
  return properties.every(({ name, conditions, checks }) => {
    const value = members[name];
    const isLookedAt = conditions.every((condition) => condition(value, members));
    return !isLookedAt || checks.every((check) => check(value, members));
  });
}

const known = new WeakMap<object, ClassChecks>();

function checksOf(dtoClass: Function): ClassChecks {
  const found = known.get(dtoClass);
  if (found !== undefined) return found;
  const compiled = compile(dtoClass);
  known.set(dtoClass, compiled);
  return compiled;
}

type Metadata = ReturnType<ReturnType<typeof getMetadataStorage>['getTargetValidationMetadatas']>[number];

function compile(dtoClass: Function): ClassChecks {
  const properties = new Map<string, PropertyChecks>();
  for (const metadata of getMetadataStorage().getTargetValidationMetadatas(dtoClass, '', false, false)) {
    const name = metadata.propertyName;
    const property = properties.get(name) ?? { name, conditions: [], checks: [] };
    properties.set(name, property);
    const isPlain = !metadata.validateIf && (metadata.groups ?? []).length === 0;
    const checks = isPlain ? checksFor(metadata) : null;
    if (!checks) return null;
    const list = metadata.type === ValidationTypes.CONDITIONAL_VALIDATION ? property.conditions : property.checks;
    list.push(...checks);
  }
  return [...properties.values()];
}

/** Null for what is better left to class-validator. */
function checksFor(metadata: Metadata): Check[] | null {
  switch (metadata.type) {
    case ValidationTypes.CONDITIONAL_VALIDATION: {
      const condition = metadata.constraints[0] as (object: Members, value: unknown) => boolean;
      return [(value, object) => condition(object, value)];
    }
    case ValidationTypes.NESTED_VALIDATION:
      return [isNestedFaultless];
    case ValidationTypes.CUSTOM_VALIDATION:
    case ValidationTypes.IS_DEFINED:
      return metadata.each ? null : customChecks(metadata);
    default:
      return null;
  }
}

function customChecks({ target, propertyName, constraints, constraintCls }: Metadata): Check[] | null {
  const targetName = typeof target === 'string' ? target : target.name;
  const found = getMetadataStorage().getTargetValidatorConstraints(constraintCls);
  if (found.some((constraint) => constraint.async)) return null;
  return found.map(
    ({ instance }) =>
      (value, object) =>
        // A promise isn't true.
        instance.validate(value, { targetName, property: propertyName, object, value, constraints }) === true,
  );
}

/** Whether it may be missing is for other decorators to say. */
function isNestedFaultless(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  if (Array.isArray(value)) return value.every((element) => isObject(element) && isFaultless(element));
  return isObject(value) && !(value instanceof Map || value instanceof Set) && isFaultless(value);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
