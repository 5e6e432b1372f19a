import { forEachYielding } from '../../util/yielding.ts'

/** How many elements each set and map has in what `nft list table` wrote. */
export const listedSizes = async (text: string): Promise<ReadonlyMap<string, number>> => {
  const sizes = new Map<string, number>()
  let set = ''
  let within = false
  await forEachYielding(text.matchAll(/[^\n]+/g), ([line]) => {
    const [, name] = /^\t(?:set|map) (\S+) \{/.exec(line) ?? []
    if (name !== undefined) {
      set = name
      sizes.set(set, 0)
    }
    within ||= line.startsWith('\t\telements = {')
    if (!within) return
    // Each element but the last is followed by a comma.
    const last = line.endsWith('}') ? 1 : 0
    sizes.set(set, (sizes.get(set) ?? 0) + line.split(',').length - 1 + last)
    within = last === 0
  })
  return sizes
}
