import { ToolError } from '../run-tool.ts'

/** Lines shown before and after the one that failed. */
const around = 3
/** Of one line. */
const mostCharacters = 300

/**
 * Adds to an error of iptables-restore the lines of its input that it names. Any other
 * error is returned as it is.
 */
export const explained = (error: unknown, input: string): unknown => {
  if (!(error instanceof ToolError)) return error
  const said = /(?:at line: |^line |: line )(\d+)/m.exec(error.stderr)
  if (said === null) return error
  const number = Number(said[1])
  const what = error.stderr.slice(said.index).replace(/^: /, '').split('\n')[0] ?? ''
  const shown = linesAround(input, number).map(
    ([at, line]) =>
      `${at === number ? '>' : ' '} ${at}: ${line.slice(0, mostCharacters)}`,
  )
  if (shown.length === 0) return error
  const about = error.message.includes(what) ? '' : `: ${what}`
  const text = `${error.message}${about}\n${shown.join('\n')}`
  return new ToolError(text, error.failure, error.stderr)
}

const linesAround = (
  input: string,
  number: number,
): readonly (readonly [at: number, line: string])[] => {
  const shown: [number, string][] = []
  let start = 0
  for (let at = 1; at <= number + around && start < input.length; at++) {
    const found = input.indexOf('\n', start)
    const end = found < 0 ? input.length : found
    if (at >= number - around) shown.push([at, input.slice(start, end)])
    start = end + 1
  }
  return shown
}
