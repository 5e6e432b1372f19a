import type { Leaf } from './leaf.ts'
import {
  type FieldPath,
  type Fields,
  type KubeProxyConfiguration,
  type Section,
  shape,
} from './shape.ts'

/** What a file gives, before defaults: objects in objects, without fields not given. */
export interface Tree {
  readonly [name: string]: unknown
}

const isTree = (value: unknown): value is Tree =>
  typeof value === 'object' && value !== null

const leavesIn = (fields: Fields, before: string): (readonly [string, Leaf<unknown>])[] =>
  Object.entries(fields).flatMap(([name, node]) =>
    node.kind === 'leaf'
      ? [[before + name, node] as const]
      : leavesIn(node.fields, `${before}${name}.`),
  )

/** Every field with its path. */
export const leaves = leavesIn(shape, '') as readonly (readonly [
  FieldPath,
  Leaf<unknown>,
])[]

/** How a field is read and written. */
export const leafAt = (path: FieldPath): Leaf<unknown> => {
  let fields: Fields = shape
  const names = path.split('.')
  for (const name of names.slice(0, -1)) fields = (fields[name] as Section).fields
  return fields[names.at(-1) ?? ''] as Leaf<unknown>
}

/** The value of a field; undefined where it is not given. */
export const valueAt = (tree: Tree | KubeProxyConfiguration, path: FieldPath): unknown =>
  path
    .split('.')
    .reduce<unknown>((value, name) => (isTree(value) ? value[name] : undefined), tree)

const withNames = (tree: Tree, names: readonly string[], value: unknown): Tree => {
  const [name = '', ...rest] = names
  const inner = tree[name]
  return {
    ...tree,
    [name]:
      rest.length === 0 ? value : withNames(isTree(inner) ? inner : {}, rest, value),
  }
}

/** The same tree with another value for one field. */
export const withValue = (tree: Tree, path: FieldPath, value: unknown): Tree =>
  withNames(tree, path.split('.'), value)

/** Whether a file gives a field, with anything but what stands for its default. */
export const isGiven = (tree: Tree, path: FieldPath): boolean => {
  const value = valueAt(tree, path)
  return value !== undefined && !leafAt(path).isUnset(value)
}
