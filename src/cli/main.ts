#!/usr/bin/env node
import { main } from './dispatch.ts'
import { processIo } from './io.ts'

const code = await main(process.argv.slice(2), processIo())
// Not process.exit: output that is still on its way to a pipe would be cut off.
process.exitCode = code || process.exitCode
// All is done. What can't be ended (a connection through a proxy that does not answer:
// agent-base has no abort) must not hold up the end until a SIGKILL.
setTimeout(() => process.exit(), 2000).unref()
