import type * as v from 'valibot'
import type { Problem } from '../../model/snapshot.ts'
import { printable } from '../../util/printable.ts'

/** Problems of one object; more are only counted. */
export const mostProblems = 20

/** A field and what is wrong with it; the object's name is added at the end. */
export interface Fault {
  readonly field: string
  readonly message: string
}

/** None where the message is ''. */
export const faultIf = (field: string, message: string): Fault[] =>
  message === '' ? [] : [{ field, message }]

const plainKey = /^[A-Za-z_]\w*$/

/** `['spec', 'ports', 0, 'port']` as `spec.ports[0].port`. */
export const fieldPath = (keys: readonly unknown[]): string => {
  let path = ''
  for (const key of keys) {
    if (typeof key === 'number') path += `[${key}]`
    else if (typeof key === 'string' && plainKey.test(key))
      path += path === '' ? key : `.${key}`
    else path += `["${printable(String(key))}"]`
  }
  return path
}

export const faultOf = (issue: v.BaseIssue<unknown>): Fault => ({
  field: fieldPath((issue.path ?? []).map(item => item.key)),
  message: issue.message,
})

/** On one line: `Service default/web: spec.ports: ...`. */
export const problemText = ({ object, field, message }: Problem): string =>
  [object, field, message].filter(part => part !== '').join(': ')

export const problemsOf = (object: string, faults: readonly Fault[]): Problem[] => {
  const problems = faults
    .slice(0, mostProblems)
    .map(({ field, message }) => ({ object, field, message }))
  const more = faults.length - problems.length
  if (more > 0) problems.push({ object, field: '', message: `and ${more} more problems` })
  return problems
}
