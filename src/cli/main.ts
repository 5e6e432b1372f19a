#!/usr/bin/env node
import { main } from './dispatch.ts'
import { processIo } from './io.ts'
import { surviveOutputErrors } from './output-errors.ts'

surviveOutputErrors()
// Not process.exit: output that is still on its way to a pipe would be cut off.
process.exitCode = await main(process.argv.slice(2), processIo())
// All is done. What nobody can end any more (a connection through a proxy that does not
// answer: agent-base knows no abort) must not hold up the end until a SIGKILL.
setTimeout(() => process.exit(), 2000).unref()
