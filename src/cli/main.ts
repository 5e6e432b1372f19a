#!/usr/bin/env node
import { main } from './dispatch.ts'
import { processIo } from './io.ts'

/**
 * Without a listener a reader that went away (`usher help | head -1`) would end the process
 * by an uncaught EPIPE. What is left to print is dropped, and a proxy whose log has lost
 * its reader goes on proxying. Any other error of the output sets exit code 1.
 */
const onOutputError = (error: NodeJS.ErrnoException): void => {
  if (error.code !== 'EPIPE') process.exitCode = 1
}

process.stdout.on('error', onOutputError)
process.stderr.on('error', onOutputError)
// Not process.exit: output that is still on its way to a pipe would be cut off.
process.exitCode = await main(process.argv.slice(2), processIo())
// All is done. What can't be ended (a connection through a proxy that does not answer:
// agent-base has no abort) must not hold up the end until a SIGKILL.
setTimeout(() => process.exit(), 2000).unref()
