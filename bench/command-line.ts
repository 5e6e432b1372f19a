/**
 * What measures the same once more, as somebody would type it, however it was started.
 * Where the results were to go is left out: reports are shown to others.
 */
export const commandLine = (args: readonly string[]): string =>
  ['usher', ...args.filter((_, at) => !isOutput(args, at))].map(quoted).join(' ')

const isOutput = (args: readonly string[], at: number): boolean =>
  args[at] === '--output' ||
  args[at - 1] === '--output' ||
  args[at]?.startsWith('--output=') === true

/** For a shell, where it needs to be. */
const quoted = (word: string): string =>
  /^[\w./:=,@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
