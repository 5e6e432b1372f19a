/**
 * 32 bits of a text's UTF-16 units, the same in every process; `seed` gives another hash. FNV-1a
 * with the finalizer of MurmurHash3 (fmix32), as FNV alone leaves texts that differ at their end close together.
 */
export const hashText = (text: string, seed = 0): number => {
  let hash = 0x811c9dc5 ^ seed
  for (let i = 0; i < text.length; i += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
