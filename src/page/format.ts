// Figures for people; the command line writes them so, too.

/** `0s`, `12s`, `3m5s`, `3h`, `2d4h`: the two largest units. */
export const forPeople = (ms: number): string => {
  const seconds = Math.max(0, Math.round(ms / 1000))
  const parts: readonly (readonly [number, string])[] = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'm'],
    [seconds % 60, 's'],
  ]
  const first = parts.findIndex(([number]) => number > 0)
  if (first === -1) return '0s'
  return parts
    .slice(first, first + 2)
    .filter(([number]) => number > 0)
    .map(([number, unit]) => `${number}${unit}`)
    .join('')
}

/** `512 B`, `1.5 KiB`, `3.0 GiB`. */
export const bytesForPeople = (bytes: number): string => {
  const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB']
  let size = bytes
  let unit = 'B'
  for (const larger of units) {
    if (size < 1024) break
    size /= 1024
    unit = larger
  }
  return `${unit === 'B' ? size : size.toFixed(1)} ${unit}`
}

/** `1 file`, `2 files`. */
export const count = (number: number, one: string, many = `${one}s`): string =>
  `${number} ${number === 1 ? one : many}`

/** `0`, `0.3`, `17`. */
export const perSecond = (rate: number): string =>
  rate === 0 ? '0' : rate < 10 ? rate.toFixed(1) : String(Math.round(rate))

/** `manifests web.yaml, last read 3m5s ago`. */
export const lastReadText = (
  name: string,
  heardAt: number | null | undefined,
  now: number,
): string =>
  typeof heardAt === 'number'
    ? `${name}, last read ${forPeople(now - heardAt)} ago`
    : `${name} not read yet`
