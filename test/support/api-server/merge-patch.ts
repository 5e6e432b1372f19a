import { isRecord } from './kube-object.ts'

/** JSON merge patch (RFC 7386): null takes a field away, objects merge, all else replaces. */
export const mergePatch = (target: unknown, patch: unknown): unknown => {
  if (!isRecord(patch)) return patch
  const merged: Record<string, unknown> = isRecord(target) ? { ...target } : {}
  for (const [name, value] of Object.entries(patch))
    if (value === null) delete merged[name]
    else merged[name] = mergePatch(merged[name], value)
  return merged
}
