import { defaultMetadataStorage } from 'class-transformer/cjs/storage.js';
import { getMetadataStorage, ValidationTypes } from 'class-validator';

/**
 * Makes DTO instances from plain input. class-transformer's own `plainToInstance` is not used on input, because it reads
 * names out of it: a member `constructor` in free JSON makes it throw, `__proto__` is dropped, an array passes for an
 * object, and null passes as an element. What a DTO's decorators say is the same: `@Type(() => X)` makes nested
 * instances, `@Transform` is applied; everything else is handed over untouched, by reference.
 */
export type DtoClass = new () => object;

export interface StructuralFault {
  path: (string | number)[];
  kind: 'unknown' | 'shape';
  detail: string;
}

interface PropertyPlan {
  /** The class of a nested object, or of an array's elements. */
  nested: DtoClass | undefined;
  isArray: boolean;
  primitive: 'number' | 'boolean' | undefined;
  transforms: readonly ((value: unknown, source: object) => unknown)[];
}

type ClassPlan = ReadonlyMap<string, PropertyPlan>;

export interface BuildOptions {
  /** Query strings and paths know only text: numbers and booleans are read from it where `@Type` says so. */
  fromText: boolean;
}

/**
 * Builds an instance of a DTO class from a plain object and collects what has the wrong shape or isn't known. A faulty
 * property is left undefined, so that nothing else need be wary of it.
 */
export function buildDto(
  dtoClass: DtoClass,
  source: object,
  options: BuildOptions,
  faults: StructuralFault[],
  path: readonly (string | number)[] = [],
): object {
  const plan = planOf(dtoClass);
  const instance = new dtoClass() as Record<string, unknown>;
  for (const [name, value] of Object.entries(source)) {
    const property = plan.get(name);
    if (property) instance[name] = buildProperty(property, value, source, options, faults, path, name);
    else faults.push({ path: [...path, name], kind: 'unknown', detail: `${name} is not known here` });
  }
  return instance;
}

function buildProperty(
  plan: PropertyPlan,
  value: unknown,
  source: object,
  options: BuildOptions,
  faults: StructuralFault[],
  parent: readonly (string | number)[],
  name: string,
): unknown {
  const read = options.fromText ? readText(plan, value) : value;
  const built = plan.nested ? buildNested(plan, plan.nested, read, options, faults, [...parent, name]) : read;
  return plan.transforms.reduce((current, transform) => transform(current, source), built);
}

function buildNested(
  plan: PropertyPlan,
  nested: DtoClass,
  value: unknown,
  options: BuildOptions,
  faults: StructuralFault[],
  path: (string | number)[],
): unknown {
  // Whether a property may be missing or null is for its validators to say.
  if (value === undefined || value === null) return value;
  if (!plan.isArray) return buildObject(nested, value, options, faults, path);
  if (Array.isArray(value)) {
    return value.map((element: unknown, index) => buildObject(nested, element, options, faults, [...path, index]));
  }
  faults.push({ path, kind: 'shape', detail: `${path.at(-1)} must be an array` });
  return undefined;
}

function buildObject(
  nested: DtoClass,
  value: unknown,
  options: BuildOptions,
  faults: StructuralFault[],
  path: (string | number)[],
): unknown {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return buildDto(nested, value, options, faults, path);
  }
  faults.push({ path, kind: 'shape', detail: `${path.at(-1)} must be an object` });
  return undefined;
}

const DECIMAL = /^-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?$/;

/** Text that isn't a number or boolean in its plain form is left as it is, for the validators to refuse. */
function readText(plan: PropertyPlan, value: unknown): unknown {
  if (typeof value !== 'string') return value;
  switch (plan.primitive) {
    case 'number':
      return DECIMAL.test(value) ? Number(value) : value;
    case 'boolean':
      return value === 'true' ? true : value === 'false' ? false : value;
    case undefined:
      return value;
    default:
      return plan.primitive satisfies never;
  }
}

const plans = new WeakMap<DtoClass, ClassPlan>();

/** Decorators don't change after load, so a class is looked at once. */
function planOf(dtoClass: DtoClass): ClassPlan {
  const known = plans.get(dtoClass);
  if (known) return known;
  const validations = getMetadataStorage().getTargetValidationMetadatas(dtoClass, '', false, false);
  const plan = new Map<string, PropertyPlan>();
  for (const name of new Set(validations.map(({ propertyName }) => propertyName))) {
    const isArray = validations.some(
      ({ propertyName, type, each }) => propertyName === name && type === ValidationTypes.NESTED_VALIDATION && each,
    );
    plan.set(name, planProperty(dtoClass, name, isArray));
  }
  plans.set(dtoClass, plan);
  return plan;
}

function planProperty(dtoClass: DtoClass, name: string, isArray: boolean): PropertyPlan {
  const designType: unknown = Reflect.getMetadata('design:type', dtoClass.prototype as object, name);
  const type: unknown = defaultMetadataStorage.findTypeMetadata(dtoClass, name)?.typeFunction?.() ?? designType;
  const transforms = defaultMetadataStorage.findTransformMetadatas(dtoClass, name, 0).map(
    ({ transformFn }) =>
      (value: unknown, obj: object): unknown =>
        transformFn({ value, key: name, obj, type: 0, options: {} }),
  );
  const isNested = defaultMetadataStorage.findTypeMetadata(dtoClass, name) !== undefined && isDtoClass(type);
  return {
    nested: isNested ? (type as DtoClass) : undefined,
    isArray: isArray || designType === Array,
    primitive: type === Number ? 'number' : type === Boolean ? 'boolean' : undefined,
    transforms,
  };
}

const BUILT_IN = new Set<unknown>([Object, Array, String, Number, Boolean, Date, Symbol, BigInt, Map, Set]);

function isDtoClass(type: unknown): boolean {
  return typeof type === 'function' && !BUILT_IN.has(type);
}
