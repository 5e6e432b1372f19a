const onError = (error: NodeJS.ErrnoException): void => {
  if (error.code !== 'EPIPE') process.exitCode = 1
}

/**
 * Keeps a reader that went away (`usher help | head -1`) from ending the process by an
 * uncaught EPIPE: what is left to print is dropped, and a proxy whose log nobody reads
 * goes on proxying. Any other error of the output sets exit code 1.
 */
export const surviveOutputErrors = (): void => {
  process.stdout.on('error', onError)
  process.stderr.on('error', onError)
}
