/** Comments between the assertions of a process: which file they are of. */
export const beginOf = (file: string): string => `File: ${file}`
export const endOf = (file: string, ms: number): string =>
  `Done: ${file} in ${Math.round(ms)} ms`

export interface Mark {
  readonly file: string
  /** What it took; undefined where it begins. */
  readonly ms: number | undefined
}

/** Of a line of TAP; undefined for any other. */
export const markOf = (line: string): Mark | undefined => {
  const begin = /^# File: (.+)\n$/.exec(line)
  if (begin) return { file: begin[1] ?? '', ms: undefined }
  const end = /^# Done: (.+) in (\d+) ms\n$/.exec(line)
  return end ? { file: end[1] ?? '', ms: Number(end[2]) } : undefined
}
